"""The objective of masked language models."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.data.batching import Cursor
from dragoman.data.masking import MaskedBatch, MaskedStream, Masking, MaskingConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.masked import MaskedModel, build_masked
from dragoman.text.subwords import ORDINARY
from dragoman.training.config import TrainingConfig
from dragoman.training.loop import Trainer
from dragoman.training.masked_objective import MaskedLosses, MaskedObjective, validate_masked
from dragoman.training.metrics import METRICS
from dragoman.training.schedule import ScheduleConfig

V = 20
TEXTS = ["<pad>", "<unk>", "<s>", "</s>", *map(str, range(ORDINARY, V))]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Windows:
    tokens_in: Tensor
    documents: Tensor | None = None


class Counting:
    """Windows of consecutive tokens, so that a masked token follows from its neighbours."""

    def windows(self, seed: int, rows: int = 16) -> Windows:
        start = torch.randint(V - ORDINARY, (rows, 1), generator=torch.Generator().manual_seed(seed))
        return Windows(ORDINARY + (start + torch.arange(12)) % (V - ORDINARY))

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Windows, Cursor]]:
        while True:
            cursor = Cursor(epoch=cursor.epoch + 1)
            yield self.windows(cursor.epoch), cursor

    def longest(self) -> Windows:
        return self.windows(0)


def model(**changes: Any) -> MaskedModel:
    torch.manual_seed(0)
    return build_masked(
        replace(MaskedConfig(vocabulary=V, layers=1, d_model=32, heads=2, d_ff=64, dropout=0.0), **changes)
    )


def batch(**settings: Any) -> MaskedBatch:
    return Masking.of(MaskingConfig(**settings), TEXTS, seed=0).batch(Counting().windows(3), Cursor())


def gradients(loss: Tensor, of: MaskedModel) -> dict[str, Tensor]:
    of.zero_grad()
    loss.backward()
    return {name: parameter.grad for name, parameter in of.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_is_the_cross_entropy_of_the_masked_tokens(tied: bool) -> None:
    encoder, text = model(tied_embeddings=tied), batch()
    with torch.no_grad():
        assert encoder.output is not None
        encoder.output.bias.normal_()
    logits = encoder.predict(encoder(text.tokens))
    expected = F.cross_entropy(logits[text.positions], text.targets, reduction="sum")
    expected_gradients = gradients(expected, encoder)
    losses = MaskedLosses()
    actual = losses.loss(encoder, text)
    assert actual.cost == 0
    torch.testing.assert_close(actual.loss, expected)
    assert "output.bias" in expected_gradients
    torch.testing.assert_close(gradients(actual.loss, encoder), expected_gradients, rtol=1e-4, atol=1e-5)
    # A batch that does not fit into memory is split.
    parts = list(losses.split(text, 3 * 13 + 1))
    assert [losses.size(part) for part in parts] == [39, 39, 39, 39, 39, 13]
    assert sum(map(losses.tokens, parts)) == losses.tokens(text)
    torch.testing.assert_close(sum(losses.loss(encoder, part).loss for part in parts), expected)
    assert list(losses.split(text, 1e9)) == [text]


def test_next_sentences_are_a_cost() -> None:
    encoder, text = model(segments=2, pooler=True, next_sentence=True), batch(next_sentence=True)
    assert text.follows is not None
    loss = MaskedLosses().loss(encoder, text)
    logits = encoder.follows(encoder(text.tokens, text.segments).view(16, -1, 32)[:, 0])
    torch.testing.assert_close(loss.cost / len(text.targets), F.cross_entropy(logits, text.follows))
    assert "pooler.weight" in gradients(loss.loss + loss.cost, encoder)
    validation = validate_masked(encoder, [text], "fp32", CPU)
    expected = 100 * (logits.argmax(dim=1) == text.follows).float().mean()
    assert validation["next_sentence_accuracy"] == pytest.approx(float(expected))


def test_validation_is_a_mean_over_all_masked_tokens() -> None:
    encoder, texts = model(), [batch(), batch(share=0.5)]
    encoder.train()
    validation = validate_masked(encoder, texts, "fp32", CPU)
    assert encoder.training
    encoder.requires_grad_(False)
    logits = torch.cat([encoder.predict(encoder(text.tokens)[text.positions]) for text in texts])
    targets = torch.cat([text.targets for text in texts])
    assert validation.loss == pytest.approx(float(F.cross_entropy(logits, targets)), rel=1e-5)
    accuracy = 100 * (logits.argmax(dim=1) == targets).float().mean()
    assert validation["masked_accuracy"] == pytest.approx(float(accuracy))
    assert METRICS["masked_accuracy"].text(33.333) == "masked tokens correct 33.3 %"


def test_a_model_learns_to_fill_in_masked_tokens(tmp_path: Path) -> None:
    encoder = model()
    masking = Masking.of(MaskingConfig(), TEXTS, seed=0)
    fixed = [masking.batch(Counting().windows(1000, rows=100), None)]
    objective = MaskedObjective(
        MaskedStream(Counting(), masking), lambda trained: validate_masked(trained, fixed, "fp32", CPU)
    )
    result = Trainer(
        encoder,
        objective,
        config=TrainingConfig(steps=150, validations=1, best_by="masked_accuracy", average_last=0),
        schedule=ScheduleConfig(kind="linear", warmup=10, peak_learning_rate=0.01),
        d_model=32,
        precision="fp32",
        directory=tmp_path,
        save_best=lambda weights, step, best: None,
    ).run()
    assert result.best["masked_accuracy"] > 80
    assert result.best.loss < 2  # ln 16 = 2.8 without learning
