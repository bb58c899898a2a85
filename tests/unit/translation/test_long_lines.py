"""Lines of many pieces, and text that no model has learned: copied in place, said so, in bounded memory."""

import tracemalloc
from collections.abc import Sequence

import pytest

from dragoman.alignment.heads import AlignmentHead
from dragoman.errors import SettingsError
from dragoman.evaluation.task import TaskOptions
from dragoman.evaluation.tasks import task_named
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import NOT_SCORED, Hypothesis, Piece
from dragoman.translation.backend import Backend
from dragoman.translation.distillation import distill
from dragoman.translation.evaluation import Evaluation, evaluate
from dragoman.translation.pieces import SEGMENTS_AT_ONCE
from dragoman.translation.results import LineProgress
from dragoman.translation.translator import Translator
from tests.support.small_translator import WORDS, copy_translator, random_translator, tokenizer

GREEDY = SearchConfig(beam=1, max_length_offset=4)


def words(count: int) -> str:
    """Words in no order that repeats soon."""
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
def test_what_no_model_has_learned_is_copied_in_place_and_said_so(line: str) -> None:
    translator, engine = copy_translator()
    [found] = translator.translate([line], search=GREEDY)
    assert found.text == line
    assert found.copied > 0
    assert found.pieces == len(engine.read) <= 4
    assert len(found.alternatives) == 1
    assert not found.too_long


def test_a_line_that_fits_into_a_piece_goes_to_the_model_whatever_it_holds() -> None:
    translator, engine = copy_translator(max_source_tokens=300)
    lines = ["?!", "—", "...", "a" * 70, "-" * 70, "haha" * 30, "💡"]
    found = translator.translate(lines, search=GREEDY)
    assert [each.text for each in found] == lines
    assert [each.copied for each in found] == [0] * len(lines)
    assert len(engine.read) == len(lines)


def test_nothing_but_nul_is_an_empty_line_and_bytes_that_are_no_text_are_copied() -> None:
    translator, engine = copy_translator()
    nul, bad = translator.translate(["\0" * 100_000, b"\xff" * 100_000], search=GREEDY)
    assert (nul.text, nul.pieces, nul.copied) == ("", 0, 0)
    assert (bad.text, bad.pieces, bad.copied, bad.invalid_utf8) == ("\ufffd" * 100_000, 0, 100_000, True)
    assert engine.read == []


def test_the_alternatives_of_a_line_with_a_copy_are_whole_lines() -> None:
    translator = random_translator()
    search = SearchConfig(beam=3, n_best=3, max_length_offset=4)
    [alone] = translator.translate(["the door"], search=search)
    [found] = translator.translate(["the door " + "-" * 100], search=search)
    assert [each.text for each in found.alternatives] == [f"{each.text} {'-' * 100}" for each in alone.alternatives]
    assert found.score == alone.score


def test_a_long_line_gives_what_its_pieces_give_whatever_is_translated_with_it() -> None:
    line = words(1500)
    short = ["the lamp is on", "", "turn on"]
    for sampling in (None, SamplingConfig(samples=2, seed=3)):
        translator = random_translator(max_source_tokens=10)
        told: list[LineProgress] = []
        found = translator.translate(
            [short[0], line, *short[1:]], search=GREEDY, sampling=sampling, on_progress=told.append
        )
        [alone] = translator.translate([line], search=GREEDY, sampling=sampling)
        assert found[1].text == alone.text
        assert found[1].pieces == alone.pieces > 2 * SEGMENTS_AT_ONCE
        assert [each.text for each in (found[0], *found[2:])] == [
            each.text for each in translator.translate(short, search=GREEDY, sampling=sampling)
        ]
        assert [each.pieces for each in told] == list(range(0, alone.pieces, SEGMENTS_AT_ONCE))
        assert told[0].characters == 0
        assert all(each.characters < each.all_characters == len(line) for each in told)


class CountingBackend:
    """Says every piece again, and counts what it is asked at once."""

    description = "counts"
    sampler = scorer = inspectable = None

    def __init__(self) -> None:
        self.asked: list[int] = []

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        self.asked.append(len(pieces))
        return [
            [Hypothesis(tokens=(*piece.prefix, *piece.source), log_probability=-1.0, score=-1.0, finished=True)]
            for piece in pieces
        ]


def counting_translator(limit: int) -> tuple[Translator, CountingBackend]:
    backend = CountingBackend()
    typed: Backend = backend
    return Translator(typed, tokenizer(), max_source_tokens=limit), backend


def test_a_line_of_megabytes_is_translated_a_few_pieces_at_a_time() -> None:
    translator, backend = counting_translator(20)
    line = words(100_000) + "."
    tracemalloc.start()
    [found] = translator.translate(["the door", line, "now"], prefixes=["", "window", "on"])[1:2]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.text == f"window {line}"
    assert backend.asked[0] == 2
    assert max(backend.asked) == SEGMENTS_AT_ONCE
    assert found.log_probability == -found.pieces
    # Python's own objects: a few hundred bytes for each piece, and its text.
    assert peak < 40 * len(line)


def test_a_stream_yields_what_comes_before_a_long_line_first() -> None:
    translator, backend = counting_translator(20)
    stream = translator.translate_stream(["the door", words(20_000)])
    assert next(stream).text == "the door"
    assert backend.asked == [1]


def test_links_of_a_line_with_copies_count_all_its_words() -> None:
    translator = random_translator()
    head = AlignmentHead(layer=0, head=0, read=False)
    [plain] = translator.translate(["the door"], search=GREEDY, alignment=head)
    dashes = " ".join("-" * 40 for _ in range(3))
    [found] = translator.translate([f"{dashes} the door"], search=GREEDY, alignment=head)
    assert plain.alignment is not None
    shifted = [(source + 3, target + 3) for source, target in plain.alignment]
    assert found.alignment == ((0, 0), (1, 1), (2, 2), *shifted)
    [attached] = translator.translate(["the door" + "!" * 70], search=GREEDY, alignment=head)
    assert attached.alignment is not None
    assert max(source for source, _ in attached.alignment) == 1
    assert len(set(attached.alignment)) == len(attached.alignment)


def limited(limit: int) -> Translator:
    translator = random_translator()
    return Translator(translator.backend, translator.tokenizer, max_source_tokens=20, max_line_characters=limit)


def test_a_line_of_more_characters_than_allowed_is_copied_and_the_others_go_on() -> None:
    translator = limited(12)
    lines: list[str | bytes] = ["the door", " turn the lamp on ", "", "window open ", b"\xff" * 13]
    found = translator.translate(lines, search=GREEDY)
    assert [each.too_long for each in found] == [False, True, False, False, True]
    assert (found[1].text, found[1].pieces, found[1].copied) == ("turn the lamp on", 0, 16)
    assert (found[4].text, found[4].invalid_utf8) == ("\ufffd" * 13, True)
    free = random_translator().translate(lines, search=GREEDY)
    assert [found[i].text for i in (0, 2, 3)] == [free[i].text for i in (0, 2, 3)]
    with pytest.raises(SettingsError, match="max_line_characters"):
        limited(0)


def evaluation_of(translator: Translator, pairs: list[tuple[str, str]]) -> Evaluation:
    return evaluate(translator, pairs, task_named("translation", pairs, TaskOptions()), search=GREEDY)


def test_a_pair_that_is_too_long_is_not_scored_and_does_not_count() -> None:
    pairs = [("the door", "open"), ("the door", "the lamp is on now"), ("window", "on")]
    found = limited(12).score(pairs)
    free = random_translator().score(pairs)
    assert [each is NOT_SCORED for each in found] == [False, True, False]
    assert found[2].score == pytest.approx(free[2].score, abs=1e-4)
    evaluation = evaluation_of(limited(12), pairs)
    assert (evaluation.not_scored, evaluation.copied) == (1, 0)
    assert any("without 1 pairs" in note for note in evaluation.notes())
    expected = evaluation_of(random_translator(), [pairs[0], pairs[2]])
    assert evaluation.perplexity == pytest.approx(expected.perplexity, rel=1e-4)


def test_an_evaluation_says_how_many_sources_were_copied() -> None:
    evaluation = evaluation_of(random_translator(), [("the door " + "-" * 100, "open"), ("window", "on")])
    assert evaluation.to_json()["copied"] == 1
    assert any("1 of 2 sources were copied" in note for note in evaluation.notes())


def test_a_corpus_is_not_distilled_from_copies() -> None:
    translator, _ = copy_translator()
    kept = distill(translator, ["the lamp", "the door " + "-" * 100], search=GREEDY)
    assert [pair.source for pair in kept] == ["the lamp"]
