"""Scores of given targets equal the scores that a search reports for its outputs."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import build_transformer
from dragoman.search import scores
from dragoman.search.beam import beam_search
from dragoman.search.config import SearchConfig
from dragoman.search.results import Score
from dragoman.search.scores import score
from dragoman.search.stepper import Ensemble, SearchModel, SingleModel
from dragoman.text.subwords import BOS, EOS, PAD
from tests.support.table_model import CPU
from tests.support.tiny import tiny

V = 40
SOURCES = [[5, 6, 7, 8, 9], [10], [11, 12, 13]]


def random_models(count: int) -> list[Seq2Seq]:
    torch.manual_seed(count)
    return [build_transformer(tiny(V, V, joint=True)).eval() for _ in range(count)]


def pad(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    mask = torch.tensor([[i < len(row) for i in range(width)] for row in rows])
    return ids, mask


def scored(models: list[Seq2Seq], sources: list[list[int]], targets: list[list[int]]) -> list[Score]:
    source, mask = pad([[*row, EOS] for row in sources])
    target_in, _ = pad([[BOS, *row] for row in targets])
    target_out, target_mask = pad([[*row, EOS] for row in targets])
    return score(models, source, mask, target_in, target_out, target_mask, SearchConfig().length_penalty)


@pytest.mark.parametrize("count", [1, 3])
def test_score_equals_what_search_reports(count: int) -> None:
    models = random_models(count)
    model: SearchModel[Any] = SingleModel(models[0]) if count == 1 else Ensemble(models)
    # With these limits, some outputs are finished and some reach their maximum length.
    config = SearchConfig(beam=4, n_best=4, max_length_factor=2.0, max_length_offset=1)
    state = model.start(*pad([[*row, EOS] for row in SOURCES]))
    lengths = [len(row) for row in SOURCES]
    results = beam_search(model, state, lengths, config, CPU, [[], [20, 21], []])
    for source, hypotheses in zip(SOURCES, results, strict=True):
        targets = [list(hypothesis.tokens) for hypothesis in hypotheses]
        for one, other in zip(scored(models, [source] * 4, targets), hypotheses, strict=True):
            assert math.isclose(one.log_probability, other.log_probability, abs_tol=1e-4)
            assert math.isclose(one.score, other.score, abs_tol=1e-4)
            assert one.tokens == len(other.tokens) + 1


def test_scores_of_an_ensemble_use_the_mean_probability_of_each_token() -> None:
    models = random_models(2)
    source, mask = pad([[*SOURCES[0], EOS]])
    target_in, target_out = torch.tensor([[BOS, 7, 9]]), torch.tensor([[7, 9, EOS]])
    expected = 0.0
    with inference(models):
        decoded = [model.decode(target_in, model.encode(source, mask)) for model in models]
        probabilities = sum(logits.double().softmax(-1) for logits in decoded) / 2
        assert isinstance(probabilities, Tensor)
        expected = float(probabilities.gather(-1, target_out[..., None]).log().sum())
    (result,) = score(models, source, mask, target_in, target_out, torch.ones(1, 3).bool(), 0.0)
    assert math.isclose(result.log_probability, expected, abs_tol=1e-4)
    assert result.score == result.log_probability


def test_padding_and_the_size_of_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    models = random_models(1)
    targets = [[20, 21], [], [22, 23, 24, 25, 26]]
    together = scored(models, SOURCES, targets)
    assert [score.tokens for score in together] == [3, 1, 6]
    monkeypatch.setattr(scores, "POSITIONS_AT_ONCE", 2)
    for row, one in enumerate(together):
        (alone,) = scored(models, [SOURCES[row]], [targets[row]])
        assert math.isclose(one.log_probability, alone.log_probability, abs_tol=1e-4)


def test_scoring_does_not_change_the_mode_of_a_model() -> None:
    (model,) = random_models(1)
    model.train()
    # With dropout, the two results would differ.
    assert scored([model], SOURCES, SOURCES) == scored([model], SOURCES, SOURCES)
    assert model.training
