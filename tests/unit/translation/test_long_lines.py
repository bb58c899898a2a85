"""Lines of many segments, and copying of text that no model has learned, in bounded memory."""

import tracemalloc
from collections.abc import Sequence

import pytest

from dragoman.alignment.heads import AlignmentHead
from dragoman.errors import SettingsError
from dragoman.evaluation.task import TaskOptions
from dragoman.evaluation.tasks import task_named
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import NOT_SCORED, Hypothesis, SearchInput
from dragoman.translation.backend import Backend
from dragoman.translation.distillation import distill
from dragoman.translation.evaluation import Evaluation, evaluate
from dragoman.translation.results import LineProgress
from dragoman.translation.splitting import SEGMENTS_AT_ONCE
from dragoman.translation.translator import Translator
from tests.support.small_translator import WORDS, copy_translator, random_translator, tokenizer

GREEDY = SearchConfig(beam=1, max_length_offset=4)


def words(count: int) -> str:
    """Return words in an order without short repetitions, so that they are not copied."""
    return " ".join(WORDS[i * i % 289 % len(WORDS)] for i in range(count))


@pytest.mark.parametrize(
    "line",
    [
        "a" * 10_000,
        ". " * 100_000 + ".",
        "the lamp" + "!" * 5000 + " is on",
        "turn the lamp on now. " + "-" * 3000,
        "-" * 3000 + " the door",
        "the " + "💡 " * 3000 + "door " + "x" * 700 + " window",
        "e" + "\u0301" * 50_000,
        "QUJD" + "".join(f"{i:x}" for i in range(20_000)),
    ],
)
def test_text_that_no_model_has_learned_is_copied_in_place_and_reported(line: str) -> None:
    translator, engine = copy_translator()
    [translation] = translator.translate([line], search=GREEDY)
    assert translation.text == line
    assert translation.copied > 0
    assert translation.segments == len(engine.read) <= 4
    assert len(translation.alternatives) == 1
    assert not translation.too_long


def test_a_line_that_fits_into_a_segment_is_never_copied() -> None:
    translator, engine = copy_translator(max_source_tokens=300)
    lines = ["?!", "—", "...", "a" * 70, "-" * 70, "haha" * 30, "💡"]
    translations = translator.translate(lines, search=GREEDY)
    assert [each.text for each in translations] == lines
    assert [each.copied for each in translations] == [0] * len(lines)
    assert len(engine.read) == len(lines)


def test_a_line_of_nul_is_empty_and_invalid_bytes_are_copied() -> None:
    translator, engine = copy_translator()
    nul, bad = translator.translate(["\0" * 100_000, b"\xff" * 100_000], search=GREEDY)
    assert (nul.text, nul.segments, nul.copied) == ("", 0, 0)
    assert (bad.text, bad.segments, bad.copied, bad.invalid_utf8) == ("\ufffd" * 100_000, 0, 100_000, True)
    assert engine.read == []


def test_alternatives_of_a_line_with_copied_text_are_whole_lines() -> None:
    translator = random_translator()
    search = SearchConfig(beam=3, n_best=3, max_length_offset=4)
    [alone] = translator.translate(["the door"], search=search)
    [translation] = translator.translate(["the door " + "-" * 100], search=search)
    assert [each.text for each in translation.alternatives] == [
        f"{each.text} {'-' * 100}" for each in alone.alternatives
    ]
    assert translation.score == alone.score


def test_a_long_line_does_not_depend_on_the_lines_translated_with_it() -> None:
    line = words(1500)
    short = ["the lamp is on", "", "turn on"]
    for sampling in (None, SamplingConfig(samples=2, seed=3)):
        translator = random_translator(max_source_tokens=10)
        progress: list[LineProgress] = []
        translations = translator.translate(
            [short[0], line, *short[1:]], search=GREEDY, sampling=sampling, on_progress=progress.append
        )
        [alone] = translator.translate([line], search=GREEDY, sampling=sampling)
        assert translations[1].text == alone.text
        assert translations[1].segments == alone.segments > 2 * SEGMENTS_AT_ONCE
        assert [each.text for each in (translations[0], *translations[2:])] == [
            each.text for each in translator.translate(short, search=GREEDY, sampling=sampling)
        ]
        assert [each.segments for each in progress] == list(range(0, alone.segments, SEGMENTS_AT_ONCE))
        assert progress[0].characters == 0
        assert all(each.characters < each.all_characters == len(line) for each in progress)


class CountingBackend:
    """A backend that returns each source as the output, and records the sizes of its batches."""

    description = "counts"
    sampler = scorer = inspectable = None

    def __init__(self) -> None:
        self.batch_sizes: list[int] = []

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        self.batch_sizes.append(len(inputs))
        return [
            [Hypothesis(tokens=(*each.prefix, *each.source), log_probability=-1.0, score=-1.0, finished=True)]
            for each in inputs
        ]


def counting_translator(limit: int) -> tuple[Translator, CountingBackend]:
    backend = CountingBackend()
    typed: Backend = backend
    return Translator(typed, tokenizer(), max_source_tokens=limit), backend


def test_a_line_of_megabytes_is_translated_in_batches_of_few_segments() -> None:
    translator, backend = counting_translator(20)
    line = words(100_000) + "."
    tracemalloc.start()
    [translation] = translator.translate(["the door", line, "now"], prefixes=["", "window", "on"])[1:2]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert translation.text == f"window {line}"
    assert backend.batch_sizes[0] == 2
    assert max(backend.batch_sizes) == SEGMENTS_AT_ONCE
    assert translation.log_probability == -translation.segments
    # Python objects take a few hundred bytes per segment, besides its text.
    assert peak < 40 * len(line)


def test_a_stream_yields_the_lines_before_a_long_line_first() -> None:
    translator, backend = counting_translator(20)
    stream = translator.translate_stream(["the door", words(20_000)])
    assert next(stream).text == "the door"
    assert backend.batch_sizes == [1]


def test_links_of_a_line_with_copied_text_count_all_words() -> None:
    translator = random_translator()
    head = AlignmentHead(layer=0, head=0, from_input=False)
    [plain] = translator.translate(["the door"], search=GREEDY, alignment=head)
    dashes = " ".join("-" * 40 for _ in range(3))
    [translation] = translator.translate([f"{dashes} the door"], search=GREEDY, alignment=head)
    assert plain.alignment is not None
    shifted = [(source + 3, target + 3) for source, target in plain.alignment]
    assert translation.alignment == ((0, 0), (1, 1), (2, 2), *shifted)
    [attached] = translator.translate(["the door" + "!" * 70], search=GREEDY, alignment=head)
    assert attached.alignment is not None
    assert max(source for source, _ in attached.alignment) == 1
    assert len(set(attached.alignment)) == len(attached.alignment)


def limited_translator(limit: int) -> Translator:
    translator = random_translator()
    return Translator(translator.backend, translator.tokenizer, max_source_tokens=20, max_line_characters=limit)


def test_a_line_of_too_many_characters_is_copied_and_the_others_are_translated() -> None:
    translator = limited_translator(12)
    lines: list[str | bytes] = ["the door", " turn the lamp on ", "", "window open ", b"\xff" * 13]
    translations = translator.translate(lines, search=GREEDY)
    assert [each.too_long for each in translations] == [False, True, False, False, True]
    assert (translations[1].text, translations[1].segments, translations[1].copied) == ("turn the lamp on", 0, 16)
    assert (translations[4].text, translations[4].invalid_utf8) == ("\ufffd" * 13, True)
    unlimited = random_translator().translate(lines, search=GREEDY)
    assert [translations[i].text for i in (0, 2, 3)] == [unlimited[i].text for i in (0, 2, 3)]
    with pytest.raises(SettingsError, match="max_line_characters"):
        limited_translator(0)


def evaluation_of(translator: Translator, pairs: list[tuple[str, str]]) -> Evaluation:
    return evaluate(translator, pairs, task_named("translation", pairs, TaskOptions()), search=GREEDY)


def test_a_pair_that_is_too_long_is_not_scored_and_not_counted() -> None:
    pairs = [("the door", "open"), ("the door", "the lamp is on now"), ("window", "on")]
    scores = limited_translator(12).score(pairs)
    unlimited = random_translator().score(pairs)
    assert [each is NOT_SCORED for each in scores] == [False, True, False]
    assert scores[2].score == pytest.approx(unlimited[2].score, abs=1e-4)
    evaluation = evaluation_of(limited_translator(12), pairs)
    assert (evaluation.not_scored, evaluation.copied) == (1, 0)
    assert any("excludes 1 pairs" in note for note in evaluation.notes())
    expected = evaluation_of(random_translator(), [pairs[0], pairs[2]])
    assert evaluation.perplexity == pytest.approx(expected.perplexity, rel=1e-4)


def test_an_evaluation_counts_copied_sources() -> None:
    evaluation = evaluation_of(random_translator(), [("the door " + "-" * 100, "open"), ("window", "on")])
    assert evaluation.to_json()["copied"] == 1
    assert any("1 of 2 sources were copied" in note for note in evaluation.notes())


def test_copied_sources_are_not_distilled() -> None:
    translator, _ = copy_translator()
    kept = distill(translator, ["the lamp", "the door " + "-" * 100], search=GREEDY)
    assert [pair.source for pair in kept] == ["the lamp"]


@pytest.mark.parametrize("prefix", ["", "the lamp"])
@pytest.mark.parametrize("count", [0, 1, 5, 2 * SEGMENTS_AT_ONCE])
def test_a_line_can_be_searched_by_its_caller(count: int, prefix: str) -> None:
    translator = random_translator()
    head = AlignmentHead(layer=0, head=None, from_input=True)
    line, search = " ".join(f"{' '.join(WORDS)}." for _ in range(count)), SearchConfig(beam=1)
    steps = translator.line_steps(line, prefix=prefix, alignment=head)
    sizes = []
    try:
        inputs = next(steps)
        while True:
            sizes.append(len(inputs))
            inputs = steps.send(translator.backend.search(inputs, search))
    except StopIteration as end:
        translation = end.value
    assert [translation] == translator.translate([line], search=search, prefixes=[prefix], alignment=head)
    assert max(sizes, default=0) <= SEGMENTS_AT_ONCE
    assert sum(sizes) == translation.segments
