"""A text as the sentences that are translated and what stands between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.evaluation.alignment import Link
from dragoman.serving.texts.sentences import joined_by_space, sentence_spans
from dragoman.text.lines import LINE_BREAK

_SPACES = re.compile(rf"(?:\s|{LINE_BREAK.pattern})++")


@dataclass(frozen=True)
class Piece:
    """A sentence of a text.

    Attributes:
        before: what stands before it in the text, after the previous sentence.
        source: the sentence as it is translated.
        written: the sentence as it is written in the text.
        needs_alignment: True if `rendered` uses links between words.
    """

    before: str
    source: str
    written: str

    @property
    def needs_alignment(self) -> bool:
        """See the class."""
        return False

    def rendered(self, translation: str, links: Sequence[Link] | None) -> str:
        """Return the text that takes the place of the sentence."""
        return translation


@dataclass(frozen=True)
class SplitText:
    """A text as sentences.

    Attributes:
        pieces: the sentences.
        after: what stands after the last one.
    """

    pieces: Sequence[Piece]
    after: str

    def assembled(self, outputs: Sequence[str]) -> str:
        """Return the text with an output in the place of each sentence."""
        parts: list[str] = []
        previous = ""
        for index, output in enumerate(outputs):
            parts += [self.gap(index, previous, output), output]
            previous = output
        return "".join([*parts, self.after])

    def gap(self, index: int, previous: str, output: str) -> str:
        """Return what stands before the output of a sentence: what stands before it in the text, or an added space.

        A space is added between the outputs of two sentences that follow each other directly, if need be.

        Args:
            index: index of the sentence.
            previous: output of the sentence before it; "" for the first one.
            output: its output.
        """
        before = self.pieces[index].before
        if index and not before and joined_by_space(self.pieces[index - 1].source, previous, output):
            return " "
        return before


def _joined(spaces: re.Match[str]) -> str:
    return " " if LINE_BREAK.search(spaces[0]) else spaces[0]


def split_plain_text(text: str, language: str, *, split_sentences: bool, join_lines: bool = False) -> SplitText:
    """Split a text without markup.

    Args:
        text: the text.
        language: see `sentence_spans`.
        split_sentences: see `sentence_spans`.
        join_lines: True to take line breaks for spaces.
    """
    pieces = []
    end = 0
    lines = LINE_BREAK.sub(" ", text) if join_lines else text
    for span in sentence_spans(lines, language, split_sentences=split_sentences):
        written = text[span.start : span.end]
        sentence = _SPACES.sub(_joined, written) if join_lines else written
        pieces.append(Piece(text[end : span.start], sentence, written))
        end = span.end
    return SplitText(pieces, text[end:])
