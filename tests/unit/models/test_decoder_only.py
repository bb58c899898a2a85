"""The decoder-only translation model: source and target as one text, and the loss of the target."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.errors import SettingsError
from dragoman.models.decoder_only import DecoderOnly
from dragoman.models.registry import build_model, preset
from dragoman.models.state import DecoderState
from dragoman.packing import Packed, Padded
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.translation_objective import TranslationLosses
from tests.support.variants import VARIANTS
from tests.support.variants.sizes import V

EACH_VARIANT = pytest.mark.parametrize("variant", [name for name in VARIANTS if name.startswith("decoder-only")])


def build(variant: str) -> DecoderOnly:
    """Return a model in float64, to exclude rounding errors, with larger weights than initial ones."""
    torch.manual_seed(0)
    model = build_model(replace(VARIANTS[variant], dropout=0.0)).double()
    assert isinstance(model, DecoderOnly)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(length))


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return source, source mask, target and target mask of four pairs; the longest pair is not the widest side."""
    source_mask = torch.arange(9) < torch.tensor([[5], [0], [9], [7]])
    target_mask = torch.arange(8) < torch.tensor([[2], [8], [1], [7]])
    return tokens(4, 9), source_mask, tokens(4, 8), target_mask


@EACH_VARIANT
def test_states_are_those_of_the_text_of_source_and_target(variant: str) -> None:
    """In training and in step-wise decoding."""
    model = build(variant)
    source, source_mask, target, target_mask = batch()
    decoded = model(source, source_mask, target, target_mask)
    assert isinstance(decoded.layout, Packed)
    assert decoded.cost == 0
    memory = model.encode(source, source_mask)
    at_once = model.decode_states(target, memory, target_mask)
    state: DecoderState = model.start(memory)
    steps = []
    for token in target.T:
        logits, state = model.step(token, state)
        steps.append(logits)
    for row in range(4):
        text = torch.cat((source[row][source_mask[row]], target[row][target_mask[row]])).unsqueeze(0)
        length = int(source_mask[row].sum())
        expected = model.text(text).states[0, length:]
        torch.testing.assert_close(memory.states[row][source_mask[row]], model.text(text).states[0, :length])
        for states in (decoded.states, at_once):
            torch.testing.assert_close(states[row][target_mask[row]], expected)
        logits = torch.stack(steps, dim=1)[row][target_mask[row]]
        torch.testing.assert_close(logits, model.project(expected))


def test_the_loss_is_that_of_the_target_only() -> None:
    """Equal to the loss by hand, for each row alone; the gradient of the source's own predictions is zero."""
    model = build("decoder-only, full")
    source, source_mask, target, target_mask = batch()
    labels = tokens(4, 11)[:, :8]
    decoded = model(source, source_mask, target, target_mask)
    loss, count = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, labels, 0.0)
    loss.backward()
    gradient = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row in range(4):
        text = torch.cat((source[row][source_mask[row]], target[row][target_mask[row]])).unsqueeze(0)
        logits = model.project(model.text(text).states)[0, int(source_mask[row].sum()) :]
        total = total + F.cross_entropy(logits, labels[row][target_mask[row]], reduction="sum")
    total.backward()
    assert count == target_mask.sum() == 18
    torch.testing.assert_close(loss.double(), total, rtol=1e-5, atol=1e-5)
    by_hand = {name: parameter.grad for name, parameter in model.named_parameters()}
    torch.testing.assert_close(gradient, by_hand, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device_layout", ["packed", "padded"])
def test_the_loss_of_the_source_is_added_with_its_weight(device_layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token after the first, predicted from those before it; the same by hand, for each row alone."""
    if device_layout == "padded":
        monkeypatch.setattr("dragoman.models.decoder_only.layout_of", Padded)
    model = build("decoder-only, full")
    source, source_mask, target, target_mask = batch()
    pairs = Batch(
        source=source,
        source_mask=source_mask,
        target_in=target,
        target_out=tokens(4, 8),
        target_mask=target_mask,
        target_tokens=18,
    )
    without, added = (TranslationLosses(0.1, source_loss=weight).loss(model, pairs) for weight in (0.0, 0.25))
    added.cost.backward()
    embeddings = model.text.embedding.tokens.weight
    gradient = embeddings.grad
    model.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row in range(4):
        text = source[row][source_mask[row]].unsqueeze(0)
        if text.shape[1] > 1:
            logits = model.project(model.text(text).states)[0, :-1]
            total = total + 0.25 * F.cross_entropy(logits, text[0, 1:], reduction="sum")
    total.backward()
    assert without.cost == 0
    torch.testing.assert_close(added.loss, without.loss)
    torch.testing.assert_close(added.cost.double(), total, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, embeddings.grad, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_learned_positions_count_tokens_not_padding() -> None:
    """A short source with a long target, and a long source with a short target, whose padding lies beyond."""
    config = replace(VARIANTS["decoder-only, learned"], max_positions=12)
    model = build_model(config).eval()
    source_mask = torch.arange(10) < torch.tensor([[10], [1]])
    target_mask = torch.arange(8) < torch.tensor([[2], [8]])
    source, target = tokens(2, 10), tokens(2, 8)
    states = model.decode_states(target, model.encode(source, source_mask), target_mask)
    expected = model(source, source_mask, target, target_mask).states
    torch.testing.assert_close(states[target_mask], expected[target_mask], rtol=1e-4, atol=1e-5)


def test_source_and_target_need_one_vocabulary() -> None:
    with pytest.raises(SettingsError, match=r"20 subwords and the target vocabulary 21: set tokenizer\.joint = true"):
        preset("tiny", 20, 21, joint=True, architecture="decoder-only")
    with pytest.raises(SettingsError, match=r"needs a joint vocabulary: set tokenizer\.joint = true"):
        preset("tiny", 20, 20, joint=False, architecture="decoder-only")
    model = build_model(replace(VARIANTS["decoder-only, full"], tied_embeddings="none"))
    assert isinstance(model, DecoderOnly)
    assert model.output.weight is not model.text.embedding.tokens.weight
    assert model.output is model.text.output


@pytest.mark.parametrize("name", ["tiny", "small", "base"])
def test_presets_have_about_as_many_parameters_as_the_transformers(name: str) -> None:
    with torch.device("meta"):
        sizes = [
            sum(
                parameter.numel()
                for parameter in build_model(preset(name, 8000, 8000, joint=True, architecture=kind)).parameters()
            )
            for kind in ("decoder-only", "transformer")
        ]
    assert 0.9 < sizes[0] / sizes[1] < 1.1
