"""The shortlist: what is learnt, what is stored, and a search that keeps to it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, UserError
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.state import DecoderState
from dragoman.models.storage import load_model
from dragoman.search.config import SearchConfig
from dragoman.search.results import Piece
from dragoman.search.stepper import SingleModel
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.subwords import EOS
from dragoman.translation.shortlist import SHORTLIST_FILE, Shortlist, learn_shortlist
from dragoman.translation.shortlist_learning import ShortlistCorpus
from dragoman.translation.translator import Translator
from tests.support.native_models import BUILDS, SOURCES, assert_same, pieces, searcher, translator_directory, write
from tests.support.small_translator import tokenizer

WORDS = 12


def lexicon(pairs: int = 300) -> tuple[list[list[int]], list[list[int]]]:
    """Sentences of words 10 to 21, translated word by word by adding 20, in another order."""
    generator = np.random.default_rng(0)
    sources = [generator.integers(10, 10 + WORDS, generator.integers(1, 7)).tolist() for _ in range(pairs)]
    return sources, [generator.permutation([word + 20 for word in source]).tolist() for source in sources]


def learn(likely: int = 1, frequent: int = 0, joint: bool = False) -> Shortlist:
    sources, targets = lexicon()
    return learn_shortlist(
        sources,
        targets,
        50,
        joint=joint,
        special=[5],
        likely=likely,
        frequent=frequent,
        tell=lambda number, likelihood: None,
    )


def test_words_find_their_translations() -> None:
    shortlist = learn()
    for word in range(10, 10 + WORDS):
        assert shortlist.allowed([word], []) == [EOS, 5, word + 20]
    assert shortlist.allowed([11, 15, 11, 49], [44]) == [EOS, 5, 31, 35, 44]


def test_a_joint_vocabulary_may_copy() -> None:
    assert learn(joint=True).allowed([10, 49], []) == [EOS, 5, 10, 30, 49]


def test_frequent_words_are_always_allowed() -> None:
    _, targets = lexicon()
    counts = np.bincount(np.concatenate([np.array(row) for row in targets]))
    most = np.argsort(-counts, kind="stable")[:3].tolist()
    assert learn(frequent=3).allowed([], []) == sorted([EOS, 5, *most])


def test_expectation_maximisation_by_hand() -> None:
    """ "b" goes with "y" as soon as "a" is known to go with "x"; the likelihood never falls (Brown et al., 1993)."""
    heard: list[float] = []
    shortlist = learn_shortlist(
        [[10, 11], [10], []],
        [[20, 21], [20], [22]],
        12,
        joint=False,
        special=[],
        likely=1,
        frequent=0,
        tell=lambda number, likelihood: heard.append(likelihood),
    )
    assert shortlist.allowed([10], []) == [EOS, 20]
    assert shortlist.allowed([11], []) == [EOS, 21]
    # At first p(x|a) = p(y|a) = 1/2, and so for b: each of the three target tokens is explained by 1/2.
    assert heard[0] == pytest.approx(math.log(0.5))
    assert heard == sorted(heard)


def test_stored_with_the_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dragoman shortlist"):
        Shortlist.load(tmp_path, 50, 50)
    learn(likely=3).save(tmp_path)
    assert Shortlist.load(tmp_path, 50, 50).allowed([12, 20], []) == learn(likely=3).allowed([12, 20], [])
    for source, target in ((51, 50), (50, 20)):
        with pytest.raises(UserError, match="another vocabulary"):
            Shortlist.load(tmp_path, source, target)
    data = (tmp_path / SHORTLIST_FILE).read_bytes()
    (tmp_path / SHORTLIST_FILE).write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match="damaged"):
        Shortlist.load(tmp_path, 50, 50)


def test_a_shortlist_is_learnt_from_what_the_model_can_take(tmp_path: Path) -> None:
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
    heard: list[int] = []
    shortlist = corpus.learn(likely=3, frequent=0, tell=lambda number, _: heard.append(number))
    assert heard == [1, 2, 3, 4, 5]
    [on], [off] = tokenizer().encode_source(["on"]), tokenizer().encode_target(["off"])
    # A joint vocabulary may copy.
    assert {*off, *on} <= set(shortlist.allowed(on, []))
    shortlist.save(directory)
    assert Shortlist.load(directory, corpus.source_vocabulary, corpus.target_vocabulary).allowed(on, [])
    with pytest.raises(CorpusError, match=r"x\.tsv: no pairs to learn from: .* at most 12 subwords"):
        ShortlistCorpus.encode(directory, pairs[1:4], where="x.tsv")


class Restricted(SingleModel):
    """A model that knows of some target tokens only."""

    def __init__(self, model: Seq2Seq, allowed: list[int]) -> None:
        super().__init__(model)
        self.allowed = allowed

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        logits, state = self.models[0].step(token, state)
        some = torch.full_like(logits, -math.inf)
        some[:, self.allowed] = logits[:, self.allowed]
        return some.log_softmax(-1), state


needs_engine = pytest.mark.skipif(not BUILDS, reason="the compiled engine is not installed: no C++ compiler was found")


@needs_engine
@pytest.mark.parametrize("beam", [1, 4])
def test_search_within_a_shortlist_is_that_of_torch(tmp_path: Path, beam: int) -> None:
    config = write(tmp_path, {"target_vocabulary": 131, "tied_embeddings": "none", "attention_bias": True})
    generator = np.random.default_rng(1)
    always = np.array([EOS, *range(4, 60, 7)])
    likely = generator.integers(60, 131, 70 * 9)
    shortlist = Shortlist(always, likely, np.arange(71) * 9)
    search = SearchConfig(beam=beam, n_best=beam, max_length_offset=12)
    given = pieces(SOURCES, [[], [], [100, 3 + 4], []])
    found = searcher(tmp_path, config, shortlist=shortlist, batch_sentences=3).search(given, search)
    model = load_model(tmp_path)
    for piece, hypotheses in zip(given, found, strict=True):
        allowed = shortlist.allowed([*piece.source, EOS], piece.prefix)
        assert all(set(each.tokens) <= set(allowed) for each in hypotheses)
        expected = TorchBackend(Restricted(model, allowed), batch_tokens=4096).search([piece], search)
        assert_same([hypotheses], expected)


@needs_engine
def test_a_shortlist_of_everything_changes_nothing(tmp_path: Path) -> None:
    config = write(tmp_path)
    everything = Shortlist(np.arange(70), np.array([], dtype=np.int64), np.zeros(71, dtype=np.int64))
    whole = searcher(tmp_path, config).search(pieces(SOURCES), SearchConfig())
    assert searcher(tmp_path, config, shortlist=everything).search(pieces(SOURCES), SearchConfig()) == whole


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
    [[best]] = translator.backend.search([Piece([10, 11], [])], SearchConfig())
    assert set(best.tokens) == {last}
    with pytest.raises(UserError, match="needs the compiled engine"):
        Translator.load(directory, device="cpu", engine="torch", shortlist=True)
