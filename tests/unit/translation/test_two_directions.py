"""Models that write from left to right and from right to left, separately and jointly."""

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
from dragoman.search.results import Hypothesis, SearchInput
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


def backends() -> tuple[TorchBackend, TorchBackend]:
    one, two, three = random_models(3)
    return TorchBackend.from_models([one], batch_tokens=200), TorchBackend.from_models([two, three], batch_tokens=200)


def inputs() -> list[SearchInput]:
    return [SearchInput(source, []) for source in tokenizer().encode_source(LINES)]


@pytest.mark.parametrize("beam", [1, 3])
def test_the_best_outputs_of_both_directions_are_returned(beam: int) -> None:
    forward, backward = backends()
    search = SearchConfig(beam=beam, n_best=beam, max_length_offset=2)
    ranked_outputs = TwoDirections(forward, backward).search(inputs(), search)
    left_outputs, right_outputs = forward.search(inputs(), search), backward.search(inputs(), search)
    differs = 0
    for each_input, ranked, lefts, rights in zip(inputs(), ranked_outputs, left_outputs, right_outputs, strict=True):
        candidates = {*(left.tokens for left in lefts), *(right.tokens[::-1] for right in rights)}

        def both(tokens: tuple[int, ...], source: list[int] = each_input.source) -> tuple[float, float]:
            [left] = forward.score([source], [tokens], search.length_penalty)
            [right] = backward.score([source], [tokens[::-1]], search.length_penalty)
            return (left.score + right.score) / 2, (left.log_probability + right.log_probability) / 2

        best = sorted(candidates, key=both, reverse=True)[:beam]
        assert [each.tokens for each in ranked] == best
        for each in ranked:
            assert (each.score, each.log_probability) == pytest.approx(both(each.tokens), abs=1e-4)
        differs += best[0] != lefts[0].tokens
    if beam > 1:
        assert differs, "the other direction changes some output"


def test_an_output_that_both_find_is_finished_if_either_finished_it(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, backward = backends()

    def hypotheses(tokens: tuple[int, ...], *, finished: bool) -> list[list[Hypothesis]]:
        return [[Hypothesis(tokens=tokens, log_probability=-1, score=-1, finished=finished)]]

    for left, right in ((True, False), (False, True), (False, False)):
        monkeypatch.setattr(forward, "search", lambda *_, left=left: hypotheses((7, 8, 9), finished=left))
        monkeypatch.setattr(backward, "search", lambda *_, right=right: hypotheses((9, 8, 7), finished=right))
        [[only]] = TwoDirections(forward, backward).search(inputs()[:1], SEARCH)
        assert only.tokens == (7, 8, 9)
        assert only.finished == (left or right)


def test_a_single_right_to_left_model_returns_the_text_in_order(tmp_path: Path) -> None:
    backward = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu", engine="torch")
    as_written = Translator.from_parts([random_models(3)[1]], tokenizer(), max_source_tokens=20)
    reversing = Tokenizer.load(tmp_path / "r", right_to_left=True)
    translations = backward.translate(LINES, search=SEARCH)
    for source, line in zip(tokenizer().encode_source(LINES), translations, strict=True):
        [hypotheses] = as_written.backend.search([SearchInput(source, [])], SEARCH)
        assert [each.text for each in line.alternatives] == [
            clean_line(tokenizer().decode_target([each.tokens[::-1]])[0]) for each in hypotheses
        ]
    [forced] = backward.score([("door", "the lamp")])
    [written] = scorer_of(as_written.backend).score(
        tokenizer().encode_source(["door"]), reversing.encode_target(["the lamp"]), length_penalty=1.0
    )
    assert forced == written


def test_the_native_engine_supports_right_to_left_models(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "r", 1, right_to_left=True)
    try:
        native = Translator.load(directory, device="cpu", engine="native", precision="fp32")
    except UserError as error:
        pytest.skip(str(error))
    in_torch = Translator.load(directory, device="cpu", engine="torch")
    assert [each.text for each in native.translate(LINES, search=SEARCH)] == [
        each.text for each in in_torch.translate(LINES, search=SEARCH)
    ]


def test_models_are_grouped_by_direction(tmp_path: Path) -> None:
    """The order of the arguments does not matter."""
    directories = [write_model(tmp_path / str(i), i, right_to_left=i > 0) for i in range(3)]
    forward, backward = backends()
    expected = TwoDirections(forward, backward).search(inputs(), SEARCH)
    for order in ([0, 1, 2], [2, 0, 1]):
        translator = Translator.load(*(directories[i] for i in order), device="cpu")
        translations = translator.translate(LINES, search=SEARCH)
        for line, hypotheses in zip(translations, expected, strict=True):
            assert line.log_probability == pytest.approx(hypotheses[0].log_probability, abs=1e-4)
            assert len(line.alternatives) == 3
        assert translator.engine == (
            "left to right: torch, float32, cpu; right to left: torch, float32, cpu, an ensemble of 2 models"
        )
    # The tokenizer round-trips words, so the score is the mean over both directions.
    [both] = translator.score([("door", "the lamp")])
    alone = [Translator.load(each, device="cpu").score([("door", "the lamp")])[0] for each in directories[:1]]
    right = Translator.load(*directories[1:], device="cpu").score([("door", "the lamp")])
    assert both.log_probability == pytest.approx((alone[0].log_probability + right[0].log_probability) / 2, abs=1e-4)
    assert both.tokens == alone[0].tokens


def test_split_lines_and_lines_without_text(tmp_path: Path) -> None:
    directories = [write_model(tmp_path / str(i), i, right_to_left=i > 0) for i in range(2)]
    translator = Translator.load(*directories, device="cpu", max_source_tokens=8)
    long = "turn on the light in the kitchen. open the garden door now. please wait."
    first, empty, last = translator.translate([long, " ", "door"], search=SEARCH)
    assert first.segments > 1
    assert (empty.text, empty.segments) == ("", 0)
    assert translator.translate(["door"], search=SEARCH)[0].text == last.text
    assert translator.translate([]) == []


def test_abilities_of_one_direction_raise_an_error(tmp_path: Path) -> None:
    directories = [write_model(tmp_path / str(i), i, right_to_left=i > 0) for i in range(2)]
    both = Translator.load(*directories, device="cpu")
    with pytest.raises(UserError, match="write in the same direction"):
        both.translate(["door"], sampling=SamplingConfig())
    head = AlignmentHead(layer=0, head=0, from_input=False)
    for needs_one in (
        lambda: both.attention("door", "the lamp"),
        lambda: both.align([("door", "the lamp")], head),
        lambda: both.translate(["door"], alignment=head),
        lambda: both.measure_heads([("door", "the lamp")]),
        lambda: both.model,
    ):
        with pytest.raises(UserError, match="not for an ensemble"):
            needs_one()
    for translator in (both, Translator.load(directories[1], device="cpu")):
        with pytest.raises(UserError, match="from left to right"):
            translator.translate(["door"], prefixes=["the"])
        # Neither an empty prefix nor a prefix of an empty line is an error.
        assert [each.segments for each in translator.translate(["door", " "], prefixes=[" ", "the"])] == [1, 0]


def test_token_statistics_include_the_models_of_both_directions() -> None:
    """Each model receives targets in its own direction."""

    class Reports(TorchBackend):
        def token_values(
            self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
        ) -> list[Mapping[str, Tensor]]:
            return [{"first": torch.tensor([float(target[0]) for target in targets])}]

    forward, backward = (Reports.from_models(random_models(1), batch_tokens=200) for _ in range(2))
    statistics = TwoDirections(forward, backward).token_statistics([[5], [6]], [[10, 20], [30, 40]])
    assert statistics == {"first": TokenStatistic(mean=25.0, maximum=40.0)}


def test_the_direction_is_stored_in_config_json(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "r", 1, right_to_left=True)
    assert json.loads((directory / "config.json").read_text())["right_to_left"] is True


def test_attention_of_a_right_to_left_model(tmp_path: Path) -> None:
    translator = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu")
    attention = translator.attention("turn on", "the window")
    forward = tokenizer().target_texts(tokenizer().encode_target(["the window"])[0])
    assert attention.right_to_left
    assert attention.target == ("<s>", *forward[::-1])
    assert attention.words().predicted == ("window", "the", "</s>")
    assert '"rightToLeft":true' in attention.to_html()
    attention.save(tmp_path / "attention.json")
    assert json.loads((tmp_path / "attention.json").read_text())["right_to_left"] is True
    attention.save(tmp_path / "attention.npz")
    assert np.load(tmp_path / "attention.npz")["right_to_left"]


def test_alignments_samples_and_ablations_are_in_the_order_of_the_text(tmp_path: Path) -> None:
    backward = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu", max_source_tokens=8)
    head = AlignmentHead(layer=0, head=None, from_input=False)
    target = "the lamp is on"
    # [T, S], averaged over heads, in the order in which the model writes
    [links] = backward.align([("turn on", target)], head)
    attention = backward.attention("turn on", target).words()
    assert attention.encoder_decoder is not None
    rows = attention.encoder_decoder.weights[0].mean(0)[:-1, :-1]
    assert links == [(int(source), number) for number, source in enumerate(rows.argmax(1)[::-1])]
    long = "turn on the light in the kitchen. open the garden door now. please wait."
    [aligned] = backward.translate([long], search=SEARCH, alignment=head)
    assert aligned.segments > 1
    assert aligned.alignment is not None
    assert [target for _, target in aligned.alignment] == list(range(len(aligned.text.split())))
    shown = backward.attention("turn on", target, without_heads=True)
    assert shown.with_all == backward.translate(["turn on"], search=SearchConfig(beam=1))[0].text
    assert backward.translate_without(shown, [])[0] == shown.with_all
    [sampled] = backward.translate(["door"], search=SEARCH, sampling=SamplingConfig(seed=1))
    as_written = Translator.from_parts([random_models(3)[1]], tokenizer(), max_source_tokens=8)
    [[drawn]] = sampler_of(as_written.backend).sample(
        [SearchInput(tokenizer().encode_source(["door"])[0], [])], SEARCH, SamplingConfig(seed=1)
    )
    assert sampled.text == clean_line(tokenizer().decode_target([drawn.tokens[::-1]])[0])


def test_heads_are_measured_along_the_diagonal_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backward = Translator.load(write_model(tmp_path / "r", 1, right_to_left=True), device="cpu")
    directions: list[bool] = []

    def recording(*arguments: Any, right_to_left: bool) -> list[HeadStatistics]:
        directions.append(right_to_left)
        return measure(*arguments, right_to_left=right_to_left)

    monkeypatch.setattr("dragoman.inspection.head_measurements.measure", recording)
    backward.measure_heads([("door", "the lamp")])
    assert directions
    assert all(directions)


def test_a_quantized_copy_has_the_same_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_model(tmp_path / "r", 1, right_to_left=True)
    assert dragoman(monkeypatch, "quantize", directory, "--out", tmp_path / "small") == 0
    assert load_description(tmp_path / "small").right_to_left


def test_separate_vocabularies_can_be_right_to_left(tmp_path: Path) -> None:
    pairs = [Pair("one two three", "eins zwei drei")] * 5
    separate = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=300, joint=False, right_to_left=True))
    separate.save(tmp_path)
    loaded = Tokenizer.load(tmp_path, right_to_left=True)
    forward = Tokenizer.load(tmp_path)
    assert loaded.encode_target(["eins zwei"]) == [forward.encode_target(["eins zwei"])[0][::-1]]
    assert loaded.encode_source(["one two"]) == forward.encode_source(["one two"])
    assert loaded.vocabulary_hash == forward.vocabulary_hash
