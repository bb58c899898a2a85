"""Shortlists: learning, storage, and search within a shortlist."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from torch import Tensor

from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, ModelError, UserError
from dragoman.models.description import (
    CONFIG_FILE,
    SHORTLIST_FILE,
    ModelDescription,
    load_description,
    save_description,
)
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.state import DecoderState
from dragoman.models.storage import load_model
from dragoman.search.config import SearchConfig
from dragoman.search.results import SearchInput
from dragoman.search.stepper import SingleModel
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.subwords import EOS
from dragoman.translation.shortlist import Shortlist, learn_shortlist
from dragoman.translation.shortlist_learning import ShortlistCorpus
from dragoman.translation.translator import Translator
from tests.support.native_models import (
    BUILDS,
    NOT_INSTALLED,
    SOURCES,
    assert_same,
    native_backend,
    search_inputs,
    translator_directory,
    write_model,
)
from tests.support.small_translator import tokenizer
from tests.support.tiny import tiny

WORDS = 12


def corpus(pairs: int = 300) -> tuple[list[list[int]], list[list[int]]]:
    """Return sentences of words 10 to 21, and their translations: each word plus 20, in random order."""
    generator = np.random.default_rng(0)
    sources = [generator.integers(10, 10 + WORDS, generator.integers(1, 7)).tolist() for _ in range(pairs)]
    return sources, [generator.permutation([word + 20 for word in source]).tolist() for source in sources]


def learn(likely: int = 1, frequent: int = 0, joint: bool = False) -> Shortlist:
    sources, targets = corpus()
    return learn_shortlist(
        sources,
        targets,
        50,
        joint=joint,
        special=[5],
        likely=likely,
        frequent=frequent,
        on_progress=lambda number, likelihood: None,
    )


def test_translations_of_words_are_found() -> None:
    shortlist = learn()
    for word in range(10, 10 + WORDS):
        assert shortlist.allowed([word], []) == [EOS, 5, word + 20]
    assert shortlist.allowed([11, 15, 11, 49], [44]) == [EOS, 5, 31, 35, 44]


def test_a_joint_vocabulary_allows_copying() -> None:
    assert learn(joint=True).allowed([10, 49], []) == [EOS, 5, 10, 30, 49]


def test_frequent_words_are_always_allowed() -> None:
    _, targets = corpus()
    counts = np.bincount(np.concatenate([np.array(row) for row in targets]))
    most = np.argsort(-counts, kind="stable")[:3].tolist()
    assert learn(frequent=3).allowed([], []) == sorted([EOS, 5, *most])


def test_expectation_maximisation_by_hand() -> None:
    """ "a" is learned to translate to "x", hence "b" to "y"; the likelihood never decreases (Brown et al., 1993)."""
    likelihoods: list[float] = []
    shortlist = learn_shortlist(
        [[10, 11], [10], []],
        [[20, 21], [20], [22]],
        12,
        joint=False,
        special=[],
        likely=1,
        frequent=0,
        on_progress=lambda number, likelihood: likelihoods.append(likelihood),
    )
    assert shortlist.allowed([10], []) == [EOS, 20]
    assert shortlist.allowed([11], []) == [EOS, 21]
    # In the first iteration all probabilities are 1/2, and so is the likelihood of each of the three target tokens.
    assert likelihoods[0] == pytest.approx(math.log(0.5))
    assert likelihoods == sorted(likelihoods)


def described(source: int = 50, target: int = 50) -> ModelDescription:
    config = replace(tiny(50, 50, joint=False), source_vocabulary=source, target_vocabulary=target)
    return ModelDescription(architecture="transformer", model=config, trained_length=9)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory with config.json only."""
    save_description(tmp_path, described())
    return tmp_path


def load(directory: Path) -> Shortlist:
    return Shortlist.load(directory, load_description(directory))


def test_a_shortlist_is_stored_in_the_model_directory(model: Path) -> None:
    with pytest.raises(UserError, match="dragoman shortlist"):
        load(model)
    learn(likely=3).save(model)
    assert load(model).allowed([12, 20], []) == learn(likely=3).allowed([12, 20], [])
    for source, target in ((51, 50), (50, 20)):
        save_description(model, described(source, target))
        with pytest.raises(UserError, match="another vocabulary"):
            load(model)


def test_a_shortlist_with_changed_bytes_is_refused(model: Path) -> None:
    learn(likely=3).save(model)
    data = (model / SHORTLIST_FILE).read_bytes()
    for offset in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[offset] ^= 4
        (model / SHORTLIST_FILE).write_bytes(flipped)
        with pytest.raises(ModelError, match=r"damaged: its bytes are not those .*: *|dragoman shortlist"):
            load(model)
    (model / SHORTLIST_FILE).write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError, match="damaged"):
        load(model)


FITTING = {"always": np.array([EOS, 5]), "likely": np.arange(6, 56), "starts": np.arange(51)}
FITTING["likely"] %= 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"always": np.array([5, EOS])}, "not in ascending order"),
        ({"always": np.array([EOS, EOS])}, "not in ascending order"),
        ({"always": np.array([5])}, "another vocabulary"),
        ({"always": np.array([EOS, 50])}, "another vocabulary"),
        ({"always": np.array([-1, EOS])}, "another vocabulary"),
        ({"always": np.array([], dtype=np.int64)}, "another vocabulary"),
        ({"always": np.array([[EOS, 5]])}, "always is not a one-dimensional array of 64-bit integers"),
        ({"always": np.array([3.0, 5.0])}, "always is not a one-dimensional array of 64-bit integers"),
        ({"likely": np.full(50, np.nan)}, "likely is not a one-dimensional array of 64-bit integers"),
        ({"likely": np.full(50, 2**62)}, "another vocabulary"),
        ({"likely": np.zeros(49, dtype=np.int64)}, "overlap or have gaps"),
        ({"starts": np.arange(51)[::-1].copy()}, "overlap or have gaps"),
        ({"starts": np.full(51, 7)}, "overlap or have gaps"),
        ({"starts": np.array([0, 9, 8, *range(3, 51)])}, "overlap or have gaps"),
        ({"starts": np.array(3)}, "starts is not a one-dimensional array of 64-bit integers"),
        ({"starts": np.arange(51, dtype=np.int32)}, "starts is not a one-dimensional array of 64-bit integers"),
        ({"starts": None}, "the array starts is missing"),
        ({"starts": np.arange(50)}, "another vocabulary, of 49 source subwords"),
    ],
)
@pytest.mark.parametrize("digest", ["without digests", "with digests"])
def test_an_invalid_shortlist_is_refused(model: Path, changes: dict[str, Any], message: str, digest: str) -> None:
    arrays = {name: values for name, values in (FITTING | changes).items() if values is not None}
    (model / SHORTLIST_FILE).write_bytes(save(arrays))
    if digest == "with digests":
        save_description(model, described())
    else:
        config = json.loads((model / CONFIG_FILE).read_text())
        (model / CONFIG_FILE).write_text(json.dumps(config | {"format": 1}))
    with pytest.raises(ModelError, match=rf"damaged: .*{message}.*; learn it again with `dragoman shortlist`$"):
        load(model)
    (model / SHORTLIST_FILE).write_bytes(save(FITTING))
    if digest == "without digests":
        load(model)


def test_a_shortlist_that_config_json_does_not_list_is_refused(model: Path) -> None:
    """It may have been copied from another directory, or the process ended before config.json was written."""
    (model / SHORTLIST_FILE).write_bytes(save(FITTING))
    with pytest.raises(ModelError, match=r"config\.json does not list it; learn it again with `dragoman shortlist`$"):
        load(model)


def test_a_shortlist_is_learned_from_pairs_that_fit_the_model(tmp_path: Path) -> None:
    directory = translator_directory(tmp_path)
    pairs = [
        Pair("the lamp", "door"),
        Pair("the", ""),
        Pair("", "off"),
        Pair("the lamp is on " * 9, "x"),
        Pair("on", "off"),
    ]
    corpus = ShortlistCorpus.encode(directory, iter(pairs))
    assert (len(corpus.sources), corpus.too_long, corpus.longest) == (2, 1, 12)
    assert corpus.targets == tokenizer().encode_target(["door", "off"])
    iterations: list[int] = []
    shortlist = corpus.learn(likely=3, frequent=0, on_progress=lambda number, _: iterations.append(number))
    assert iterations == [1, 2, 3, 4, 5]
    [on], [off] = tokenizer().encode_source(["on"]), tokenizer().encode_target(["off"])
    # A joint vocabulary allows copying.
    assert {*off, *on} <= set(shortlist.allowed(on, []))
    shortlist.save(directory)
    assert load(directory).allowed(on, [])
    with pytest.raises(CorpusError, match=r"x\.tsv: no pairs to learn from: .* at most 12 subwords"):
        ShortlistCorpus.encode(directory, pairs[1:4], where="x.tsv")


class Restricted(SingleModel):
    """A model whose other target tokens have probability 0."""

    def __init__(self, model: Seq2Seq, allowed: list[int]) -> None:
        super().__init__(model)
        self.allowed = allowed

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        logits, state = self.models[0].step(token, state)
        restricted = torch.full_like(logits, -math.inf)
        restricted[:, self.allowed] = logits[:, self.allowed]
        return restricted.log_softmax(-1), state


needs_engine = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)


@needs_engine
@pytest.mark.parametrize("beam", [1, 4])
def test_search_within_a_shortlist_equals_the_torch_search(tmp_path: Path, beam: int) -> None:
    config = write_model(tmp_path, {"target_vocabulary": 131, "tied_embeddings": "none", "attention_bias": True})
    generator = np.random.default_rng(1)
    always = np.array([EOS, *range(4, 60, 7)])
    likely = generator.integers(60, 131, 70 * 9)
    shortlist = Shortlist(always, likely, np.arange(71) * 9)
    search = SearchConfig(beam=beam, n_best=beam, max_length_offset=12)
    inputs = search_inputs(SOURCES, [[], [], [100, 3 + 4], []])
    outputs = native_backend(tmp_path, config, shortlist=shortlist, batch_sentences=3).search(inputs, search)
    model = load_model(tmp_path)
    for each, hypotheses in zip(inputs, outputs, strict=True):
        allowed = shortlist.allowed([*each.source, EOS], each.prefix)
        assert all(set(hypothesis.tokens) <= set(allowed) for hypothesis in hypotheses)
        expected = TorchBackend(Restricted(model, allowed), batch_tokens=4096).search([each], search)
        assert_same([hypotheses], expected)


@needs_engine
def test_a_shortlist_of_all_tokens_changes_nothing(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    everything = Shortlist(np.arange(70), np.array([], dtype=np.int64), np.zeros(71, dtype=np.int64))
    whole = native_backend(tmp_path, config).search(search_inputs(SOURCES), SearchConfig())
    assert (
        native_backend(tmp_path, config, shortlist=everything).search(search_inputs(SOURCES), SearchConfig()) == whole
    )


@needs_engine
def test_a_translator_with_a_shortlist(tmp_path: Path) -> None:
    directory = translator_directory(tmp_path)
    with pytest.raises(UserError, match="no shortlist"):
        Translator.load(directory, device="cpu", shortlist=True)
    last = tokenizer().target_size - 1
    Shortlist(
        np.array([EOS, last]), np.array([], dtype=np.int64), np.zeros(tokenizer().source_size + 1, dtype=np.int64)
    ).save(directory)
    translator = Translator.load(directory, device="cpu", shortlist=True)
    assert translator.engine.endswith("shortlist")
    [[best]] = translator.backend.search([SearchInput([10, 11], [])], SearchConfig())
    assert set(best.tokens) == {last}
    with pytest.raises(UserError, match="needs the native engine"):
        Translator.load(directory, device="cpu", engine="torch", shortlist=True)
