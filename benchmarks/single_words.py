"""Count the single words whose translation the guard of the server rejects.

    python benchmarks/single_words.py MODEL --corpus TRAIN.tsv      # the 5,000 most frequent words of the source
    python benchmarks/single_words.py MODEL --words WORDS.txt       # the words of a file, one per line

Each word is translated by beam search, as the server does it (`dragoman.serving.texts.guard`). Printed are the number
of outputs that the guard rejects, for each reason, what replaced them (the output of greedy search, or the source), and
examples. The last line is JSON and begins with the share of words for which the source was copied.
"""

import argparse
import asyncio
import json
import platform
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dragoman import Translator, __version__
from dragoman.data.readers import parse_corpus, read_pairs
from dragoman.printing import printable
from dragoman.search.config import SearchConfig
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.texts.guard import Reason, reason_to_reject
from dragoman.serving.texts.service import TextOptions, TranslatedText, TranslationService
from dragoman.serving.texts.text_request import BEAM
from dragoman.translation.results import Translation

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
PAIR = ("source", "target")
BATCH = 500


def frequent_words(corpus: str, number: int) -> list[str]:
    """Return the most frequent words of the source of a corpus, each in its most frequent case."""
    counts = Counter(word for pair in read_pairs(parse_corpus(corpus)) for word in WORD.findall(pair.source))
    forms: dict[str, Counter[str]] = {}
    for word, count in counts.items():
        forms.setdefault(word.casefold(), Counter())[word] += count
    ranked = sorted(forms.values(), key=lambda form: (-form.total(), min(form)))
    return [form.most_common(1)[0][0] for form in ranked[:number]]


class BatchedLines:
    """Translates the lines that wait at the same time in one batch for each search; records the outputs.

    Args:
        translator: the translator.
    """

    pairs: tuple[Pair, ...] = (PAIR,)

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._waiting: list[tuple[str, LineOptions, asyncio.Future[Translation]]] = []
        self.outputs: dict[tuple[str, int], Translation] = {}

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """See `LineTranslator`."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._translate)
        future: asyncio.Future[Translation] = loop.create_future()
        self._waiting.append((line, options, future))
        return await future

    def _translate(self) -> None:
        waiting, self._waiting = self._waiting, []
        for beam in sorted({options.beam for _, options, _ in waiting}):
            group = [(line, future) for line, options, future in waiting if options.beam == beam]
            outputs = self._translator.translate([line for line, _ in group], search=SearchConfig(beam=beam))
            for (line, future), output in zip(group, outputs, strict=True):
                self.outputs[line, beam] = output
                future.set_result(output)


async def translate(lines: BatchedLines, words: Sequence[str]) -> list[TranslatedText]:
    service = TranslationService(lines)
    options = TextOptions(source=PAIR[0], target=PAIR[1], split_sentences=False)
    results = []
    for begin in range(0, len(words), BATCH):
        results += await service.translate(words[begin : begin + BATCH], options)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--corpus")
    source.add_argument("--words", type=Path)
    parser.add_argument("--number", type=int, default=5000)
    parser.add_argument("--examples", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.corpus:
        words = frequent_words(arguments.corpus, arguments.number)
    else:
        words = [word for line in arguments.words.read_text(encoding="utf-8").splitlines() if (word := line.strip())]
    lines = BatchedLines(Translator.load(arguments.model))
    started = time.perf_counter()
    results = asyncio.run(translate(lines, words))
    seconds = time.perf_counter() - started
    guarded = Counter(result.sentences[0].guarded for result in results)
    reasons: dict[Reason, list[tuple[str, str, str]]] = {}
    for word, result in zip(words, results, strict=True):
        output = lines.outputs[word, BEAM]
        reason = reason_to_reject(word, output)
        if reason:
            reasons.setdefault(reason, []).append((word, output.text, result.text))
    rejected = sum(map(len, reasons.values()))
    print(f"{len(words):,} words in {seconds:.0f} s; {rejected:,} outputs rejected ({rejected / len(words):.2%})")
    print(f"replaced by greedy search: {guarded['greedy']:,}; by the source: {guarded['source']:,}")
    for cause, examples in sorted(reasons.items()):
        print(f"\n{cause}: {len(examples):,}")
        for word, output_text, text in examples[: arguments.examples]:
            print(f"  {printable(word)}: {printable(output_text)} -> {printable(text)}")
    summary = {
        "copied": guarded["source"] / len(words),
        "words": len(words),
        "rejected": rejected,
        "greedy": guarded["greedy"],
        "source": guarded["source"],
        "reasons": {cause: len(examples) for cause, examples in sorted(reasons.items())},
        "model": arguments.model.name,
        "version": __version__,
        "machine": platform.machine(),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
