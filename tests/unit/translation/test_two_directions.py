"""Models that write from the left and models that write from the right, alone and together."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.alignment.heads import AlignmentHead
from dragoman.attention_page.statistics import HeadStatistics, measure
from dragoman.data.readers import Pair
from dragoman.errors import UserError
from dragoman.models.description import load_description
from dragoman.models.token_statistics import TokenStatistic
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Piece
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.lines import clean_line
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.translation.backend import sampler_of, scorer_of
from dragoman.translation.translator import Translator
from dragoman.translation.two_directions import TwoDirections
from tests.support.command_line import dragoman
from tests.support.small_translator import random_models, tokenizer, write_model

SEARCH = SearchConfig(beam=3, n_best=3, max_length_offset=2)
LINES = ["the lamp is on", "turn off the light", "door", "please wait now"]


def searchers() -> tuple[TorchBackend, TorchBackend]:
    one, two, three = random_models(3)
    return TorchBackend.from_models([one], batch_tokens=200), TorchBackend.from_models([two, three], batch_tokens=200)


def pieces() -> list[Piece]:
    return [Piece(source, []) for source in tokenizer().encode_source(LINES)]


@pytest.mark.parametrize("beam", [1, 3])
def test_the_best_of_all_that_either_direction_finds_is_returned(beam: int) -> None:
    forward, backward = searchers()
    search = SearchConfig(beam=beam, n_best=beam, max_length_offset=2)
    found = TwoDirections(forward, backward).search(pieces(), search)
    there, back = forward.search(pieces(), search), backward.search(pieces(), search)
    differs = 0
    for piece, ranked, lefts, rights in zip(pieces(), found, there, back, strict=True):
        candidates = {*(left.tokens for left in lefts), *(right.tokens[::-1] for right in rights)}

        def both(tokens: tuple[int, ...], source: list[int] = piece.source) -> tuple[float, float]:
            [left] = forward.score([source], [tokens], search.length_penalty)
            [right] = backward.score([source], [tokens[::-1]], search.length_penalty)
            return (left.score + right.score) / 2, (left.log_probability + right.log_probability) / 2

        best = sorted(candidates, key=both, reverse=True)[:beam]
        assert [each.tokens for each in ranked] == best
        for each in ranked:
            assert (each.score, each.log_probability) == pytest.approx(both(each.tokens), abs=1e-4)
        differs += best[0] != lefts[0].tokens
    if beam > 1:
        assert differs, "the other direction must matter"


def test_what_both_find_is_finished_if_either_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, backward = searchers()

    def finds(tokens: tuple[int, ...], *, finished: bool) -> list[list[Hypothesis]]:
        return [[Hypothesis(tokens=tokens, log_probability=-1, score=-1, finished=finished)]]

    for left, right in ((True, False), (False, True), (False, False)):
        monkeypatch.setattr(forward, "search", lambda *_, left=left: finds((7, 8, 9), finished=left))
        monkeypatch.setattr(backward, "search", lambda *_, right=right: finds((9, 8, 7), finished=right))
        [[only]] = TwoDirections(forward, backward).search(pieces()[:1], SEARCH)
        assert only.tokens == (7, 8, 9)
        assert only.finished == (left or right)


def test_alone_a_model_that_writes_from_the_right_gives_the_text_in_order(tmp_path: Path) -> None:
    backward = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu", engine="torch")
    as_written = Translator.from_parts([random_models(3)[1]], tokenizer(), max_source_tokens=20)
    turned = Tokenizer.load(tmp_path / "r", right_to_left=True)
    found = backward.translate(LINES, search=SEARCH)
    for source, line in zip(tokenizer().encode_source(LINES), found, strict=True):
        [hypotheses] = as_written.backend.search([Piece(source, [])], SEARCH)
        assert [each.text for each in line.alternatives] == [
            clean_line(tokenizer().decode_target([each.tokens[::-1]])[0]) for each in hypotheses
        ]
    [forced] = backward.score([("door", "the lamp")])
    [written] = scorer_of(as_written.backend).score(
        tokenizer().encode_source(["door"]), turned.encode_target(["the lamp"]), length_penalty=1.0
    )
    assert forced == written


def test_the_compiled_engine_writes_from_the_right_too(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "r", 1, right_to_left=True)
    try:
        native = Translator.load(directory, device="cpu", engine="native", precision="fp32")
    except UserError as error:
        pytest.skip(str(error))
    in_torch = Translator.load(directory, device="cpu", engine="torch")
    assert [each.text for each in native.translate(LINES, search=SEARCH)] == [
        each.text for each in in_torch.translate(LINES, search=SEARCH)
    ]


def test_models_are_put_together_by_their_direction(tmp_path: Path) -> None:
    """Whatever the order in which they are given."""
    directories = [write_model(tmp_path / str(i), i, right_to_left=i > 0) for i in range(3)]
    forward, backward = searchers()
    expected = TwoDirections(forward, backward).search(pieces(), SEARCH)
    for order in ([0, 1, 2], [2, 0, 1]):
        translator = Translator.load(*(directories[i] for i in order), device="cpu")
        found = translator.translate(LINES, search=SEARCH)
        for line, hypotheses in zip(found, expected, strict=True):
            assert line.log_probability == pytest.approx(hypotheses[0].log_probability, abs=1e-4)
            assert len(line.alternatives) == 3
        assert translator.engine == (
            "left to right: torch, float32, cpu; right to left: torch, float32, cpu, an ensemble of 2 models"
        )
    # Text that is written in words survives: its score is what both directions give to it.
    [both] = translator.score([("door", "the lamp")])
    alone = [Translator.load(each, device="cpu").score([("door", "the lamp")])[0] for each in directories[:1]]
    right = Translator.load(*directories[1:], device="cpu").score([("door", "the lamp")])
    assert both.log_probability == pytest.approx((alone[0].log_probability + right[0].log_probability) / 2, abs=1e-4)
    assert both.tokens == alone[0].tokens


def test_lines_in_pieces_and_lines_without_text(tmp_path: Path) -> None:
    directories = [write_model(tmp_path / str(i), i, right_to_left=i > 0) for i in range(2)]
    translator = Translator.load(*directories, device="cpu", max_source_tokens=8)
    long = "turn on the light in the kitchen. open the garden door now. please wait."
    first, empty, last = translator.translate([long, " ", "door"], search=SEARCH)
    assert first.pieces > 1
    assert (empty.text, empty.pieces) == ("", 0)
    assert translator.translate(["door"], search=SEARCH)[0].text == last.text
    assert translator.translate([]) == []


def test_what_needs_one_direction_says_so(tmp_path: Path) -> None:
    directories = [write_model(tmp_path / str(i), i, right_to_left=i > 0) for i in range(2)]
    both = Translator.load(*directories, device="cpu")
    with pytest.raises(UserError, match="write in one direction"):
        both.translate(["door"], sampling=SamplingConfig())
    head = AlignmentHead(layer=0, head=0, read=False)
    for needs_one in (
        lambda: both.attention("door", "the lamp"),
        lambda: both.align([("door", "the lamp")], head),
        lambda: both.translate(["door"], alignment=head),
        lambda: both.measure_heads([("door", "the lamp")]),
        lambda: both.model,
    ):
        with pytest.raises(UserError, match="not of an ensemble"):
            needs_one()
    for translator in (both, Translator.load(directories[1], device="cpu")):
        with pytest.raises(UserError, match="from left to right"):
            translator.translate(["door"], prefixes=["the"])
        # No text, no beginning.
        assert [each.pieces for each in translator.translate(["door", " "], prefixes=[" ", "the"])] == [1, 0]


def test_figures_are_of_the_models_of_both_directions() -> None:
    """Each sees targets in its own order."""

    class Reports(TorchBackend):
        def reports(
            self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
        ) -> list[Mapping[str, Tensor]]:
            return [{"first": torch.tensor([float(target[0]) for target in targets])}]

    forward, backward = (Reports.from_models(random_models(1), batch_tokens=200) for _ in range(2))
    figures = TwoDirections(forward, backward).token_statistics([[5], [6]], [[10, 20], [30, 40]])
    assert figures == {"first": TokenStatistic(mean=25.0, maximum=40.0)}


def test_the_direction_is_kept_in_the_description(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "r", 1, right_to_left=True)
    assert json.loads((directory / "config.json").read_text())["right_to_left"] is True


def test_attention_of_a_model_that_writes_from_the_right(tmp_path: Path) -> None:
    translator = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu")
    seen = translator.attention("turn on", "the window")
    forward = tokenizer().target_texts(tokenizer().encode_target(["the window"])[0])
    assert seen.right_to_left
    assert seen.target == ("<s>", *forward[::-1])
    assert seen.words().predicted == ("window", "the", "</s>")
    assert '"rightToLeft":true' in seen.to_html()
    seen.save(tmp_path / "seen.json")
    assert json.loads((tmp_path / "seen.json").read_text())["right_to_left"] is True
    seen.save(tmp_path / "seen.npz")
    assert np.load(tmp_path / "seen.npz")["right_to_left"]


def test_alignment_samples_and_head_ablation_are_in_the_order_of_the_text(tmp_path: Path) -> None:
    backward = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu", max_source_tokens=8)
    head = AlignmentHead(layer=0, head=None, read=False)
    target = "the lamp is on"
    # [T, S] of one layer and head, in the order that the model writes.
    [links] = backward.align([("turn on", target)], head)
    seen = backward.attention("turn on", target).words()
    assert seen.encoder_decoder is not None
    rows = seen.encoder_decoder.weights[0].mean(0)[:-1, :-1]
    assert links == [(int(source), number) for number, source in enumerate(rows.argmax(1)[::-1])]
    long = "turn on the light in the kitchen. open the garden door now. please wait."
    [aligned] = backward.translate([long], search=SEARCH, alignment=head)
    assert aligned.pieces > 1
    assert aligned.alignment is not None
    assert [target for _, target in aligned.alignment] == list(range(len(aligned.text.split())))
    shown = backward.attention("turn on", target, without_heads=True)
    assert shown.with_all == backward.translate(["turn on"], search=SearchConfig(beam=1))[0].text
    assert backward.without(shown, [])[0] == shown.with_all
    [sampled] = backward.translate(["door"], search=SEARCH, sampling=SamplingConfig(seed=1))
    written = Translator.from_parts([random_models(3)[1]], tokenizer(), max_source_tokens=8)
    [[drawn]] = sampler_of(written.backend).sample(
        [Piece(tokenizer().encode_source(["door"])[0], [])], SEARCH, SamplingConfig(seed=1)
    )
    assert sampled.text == clean_line(tokenizer().decode_target([drawn.tokens[::-1]])[0])


def test_heads_are_studied_along_the_diagonal_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backward = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu")
    given: list[bool] = []

    def noted(*arguments: Any, right_to_left: bool) -> list[HeadStatistics]:
        given.append(right_to_left)
        return measure(*arguments, right_to_left=right_to_left)

    monkeypatch.setattr("dragoman.inspection.head_measurements.measure", noted)
    backward.measure_heads([("door", "the lamp")])
    assert given
    assert all(given)


def test_a_quantized_copy_writes_in_the_same_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_model(tmp_path / "r", 1, right_to_left=True)
    assert dragoman(monkeypatch, "quantize", directory, "--out", tmp_path / "small") == 0
    assert load_description(tmp_path / "small").right_to_left


def test_a_separate_vocabulary_is_read_from_the_right_too(tmp_path: Path) -> None:
    pairs = [Pair("one two three", "eins zwei drei")] * 5
    separate = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=300, joint=False, right_to_left=True))
    separate.save(tmp_path)
    loaded = Tokenizer.load(tmp_path, right_to_left=True)
    forward = Tokenizer.load(tmp_path)
    assert loaded.encode_target(["eins zwei"]) == [forward.encode_target(["eins zwei"])[0][::-1]]
    assert loaded.encode_source(["one two"]) == forward.encode_source(["one two"])
    assert loaded.vocabulary_hash == forward.vocabulary_hash
