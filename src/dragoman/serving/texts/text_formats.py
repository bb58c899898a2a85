"""The formats of texts: how each is split into sentences, and which text its language is detected from."""

from __future__ import annotations

from dragoman.serving.texts.markup.html_text import html_runs
from dragoman.serving.texts.markup.marked_text import split_markup
from dragoman.serving.texts.markup.xml_text import xml_runs
from dragoman.serving.texts.pieces import SplitText, split_plain_text
from dragoman.serving.texts.translated import TextOptions


def split_text(text: str, language: str, options: TextOptions) -> SplitText:
    """Split a text into sentences.

    Args:
        text: the text, without lone surrogates.
        language: code of its language.
        options: its format, and how it is split.

    Raises:
        RequestError: with status 400 for XML that is not well-formed.
    """
    split_sentences = options.split_sentences
    match options.format:
        case "text":
            return split_plain_text(text, language, split_sentences=split_sentences, join_lines=options.join_lines)
        case "html":
            return split_markup(text, html_runs(text, options.tags), language, split_sentences=split_sentences)
        case "xml":
            return split_markup(text, xml_runs(text, options.tags), language, split_sentences=split_sentences)


def visible_text(text: str, options: TextOptions) -> str:
    """Return the text without markup, as far as it is translated.

    Raises:
        RequestError: as `split_text`.
    """
    match options.format:
        case "text":
            return text
        case "html":
            runs = html_runs(text, options.tags)
        case "xml":
            runs = xml_runs(text, options.tags)
    return "\n".join("".join(run.text) for run in runs)
