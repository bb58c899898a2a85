"""What holds for every language model: its methods agree, documents are separate, and its tensors are listed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.layers.compressed_attention import CompressedAttention
from dragoman.layers.local_attention import LocalAttention
from dragoman.models.config.language import LanguageConfig
from dragoman.models.description import ModelDescription
from dragoman.models.language import TransformerLanguageModel
from dragoman.models.language_model import LanguageModel
from dragoman.models.registry import architecture_of, build_language_model, text_preset
from dragoman.models.storage import load_language_model, load_model, save_model, weights_of
from dragoman.training.loss import label_smoothed_loss
from tests.support.variants import LANGUAGE_VARIANTS
from tests.support.variants.sizes import V

EACH_VARIANT = pytest.mark.parametrize("variant", LANGUAGE_VARIANTS)


def build(variant: str) -> LanguageModel:
    """Return a model in float64, to exclude rounding errors, with larger weights than initial ones."""
    torch.manual_seed(0)
    model = build_language_model(LANGUAGE_VARIANTS[variant]).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(V, (rows, length), generator=torch.Generator().manual_seed(length))


@EACH_VARIANT
@torch.no_grad()
def test_reading_in_parts_and_steps_equals_all_positions_at_once(variant: str) -> None:
    model, text = build(variant), tokens(3, 16)
    expected = model.project(model(text).states)
    states, state = model.read(text[:, :5], model.start(3))
    logits = [model.project(states)]
    states, state = model.read(text[:, 5:9], state)
    logits.append(model.project(states))
    for position in range(9, 16):
        one, state = model.step(text[:, position], state)
        logits.append(one.unsqueeze(1))
    torch.testing.assert_close(torch.cat(logits, dim=1), expected)


@EACH_VARIANT
@torch.no_grad()
def test_rows_may_repeat_and_drop_out_between_steps(variant: str) -> None:
    model, text = build(variant), tokens(3, 16)
    _, state = model.read(text[:, :8], model.start(3))
    rows = torch.tensor([2, 0, 2])
    states, _ = model.read(text[rows, 8:], state.reorder(rows))
    torch.testing.assert_close(states, model(text[rows]).states[:, 8:])


@EACH_VARIANT
@torch.no_grad()
def test_a_token_does_not_depend_on_later_tokens(variant: str) -> None:
    model, text = build(variant), tokens(2, 16)
    changed = text.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % V
    first, second = model(text).states, model(changed).states
    torch.testing.assert_close(first[:, :9], second[:, :9])
    assert (first[:, 9] - second[:, 9]).abs().max() > 1e-3


@EACH_VARIANT
@torch.no_grad()
def test_documents_of_a_window_do_not_depend_on_each_other(variant: str) -> None:
    model, text = build(variant), tokens(2, 16)
    documents = torch.tensor([[0] * 5 + [1] * 11, [0] * 12 + [1] + [2] * 3])
    changed = text.clone()
    changed[0, :5] = (changed[0, :5] + 1) % V
    changed[1, 12] = (changed[1, 12] + 1) % V
    first, second = model(text, documents).states, model(changed, documents).states
    torch.testing.assert_close(first[0, 5:], second[0, 5:])
    torch.testing.assert_close(first[1, :12], second[1, :12])
    torch.testing.assert_close(first[1, 13:], second[1, 13:])
    # The first document is computed as if it were alone.
    torch.testing.assert_close(first[0, :5], model(text[:1, :5]).states[0])
    torch.testing.assert_close(model(text, torch.zeros_like(text)).states, model(text).states)


@EACH_VARIANT
def test_every_weight_has_a_gradient(variant: str) -> None:
    model = build(variant).float().train()
    decoded = model(tokens(8, 8), torch.arange(8).expand(8, 8) // 4)
    loss, count = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, tokens(8, 8), 0.0)
    assert count == 64
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@EACH_VARIANT
def test_a_saved_model_is_loaded_as_it_was(variant: str, tmp_path: Path) -> None:
    config, model = LANGUAGE_VARIANTS[variant], build(variant).float()
    listed = {tensor.name: (tensor.shape, tensor.integer) for tensor in config.tensors()}
    assert listed == {name: (tuple(tensor.shape), False) for name, tensor in weights_of(model).items()}
    description = ModelDescription(architecture=architecture_of(config), model=config, trained_length=config.context)
    save_model(tmp_path, description, weights_of(model))
    text = tokens(2, 9)
    torch.testing.assert_close(load_language_model(tmp_path)(text).rows, model(text).rows, rtol=0, atol=0)
    with pytest.raises(ModelError, match="is a language model: use dragoman generate"):
        load_model(tmp_path)


def test_learned_positions_limit_a_text() -> None:
    config = replace(text_preset("tiny", V), positions="learned", max_positions=64)
    model = build_language_model(config)
    assert model.max_context == 64
    _, state = model.read(tokens(1, 64), model.start(1))
    with pytest.raises(CorpusError, match="a sequence of 65 is longer than the 64 learned positions"):
        model.step(tokens(1, 1)[:, 0], state)
    with pytest.raises(SettingsError, match="context is 64, but there are only max_positions = 32 positions"):
        replace(config, max_positions=32)


def test_batch_normalisation_is_refused() -> None:
    with pytest.raises(SettingsError, match="norm = 'batch' is not available in a language model"):
        LanguageConfig(vocabulary=V, norm="batch")


@torch.no_grad()
@EACH_VARIANT
def test_texts_of_different_lengths_are_read_together(variant: str) -> None:
    """As `decoder-only` does: each text continues after its own last token."""
    model = build(variant)
    if not isinstance(model, TransformerLanguageModel):
        return
    first, second, lengths = tokens(3, 9), tokens(3, 7), [9, 0, 4]
    mask = torch.arange(9) < torch.tensor(lengths).unsqueeze(1)
    _, state = model.read_padded(first, model.start(3), mask)
    states, state = model.read_padded(second[:, :4], state, None)
    later, _ = model.read(second[[2, 1], 4:], state.reorder(torch.tensor([2, 1])))
    for row, length in enumerate(lengths):
        expected = model(torch.cat((first[row, :length], second[row])).unsqueeze(0)).states[0, length:]
        torch.testing.assert_close(states[row], expected[:4])
        if row > 0:
            torch.testing.assert_close(later[2 - row], expected[4:])


def test_patterns_repeat_over_the_layers() -> None:
    config = replace(text_preset("tiny", V), layers=3, attention_pattern=("local", "compressed"))
    model = build_language_model(config)
    kinds = [type(layer.self_attention) for layer in model.layers_to_compile()]
    assert kinds == [LocalAttention, CompressedAttention, LocalAttention]
    assert config.shape().endswith("d_ff 256, local and compressed attention")
    # The convolution begins as the mean of its window; other initial weights have a standard deviation of 0.02.
    kernel = model.state_dict()["layers.1.self_attention.key_kernel.weight"]
    torch.testing.assert_close(kernel, torch.eye(64).repeat(1, 3) / 3)


def test_embeddings_are_as_large_as_the_sinusoids_that_are_added() -> None:
    config = text_preset("tiny", V)
    sinusoidal, rotary = (
        build_language_model(replace(config, positions=positions)) for positions in ("sinusoidal", "rotary")
    )
    assert isinstance(sinusoidal, TransformerLanguageModel)
    assert isinstance(rotary, TransformerLanguageModel)
    assert sinusoidal.embedding.scale == config.d_model**0.5
    assert float(sinusoidal.embedding.tokens.weight.detach().std()) * config.d_model**0.5 == pytest.approx(1, rel=0.1)
    assert rotary.embedding.scale is None
    assert float(rotary.embedding.tokens.weight.detach().std()) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_pattern": ()}, "at most one for each of the 2 layers, not 0"),
        ({"attention_pattern": ("full", "local", "full")}, "at most one for each of the 2 layers, not 3"),
        ({"attention_pattern": ("local",), "positions": "relative"}, "positions other than 'relative'"),
        ({"block": 0}, "block must be at least 1"),
        ({"compression": 0}, "compression must be at least 1"),
        ({"compression": 1 << 20}, "compression must be at most 1,024"),
    ],
)
def test_invalid_patterns(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(text_preset("tiny", V), **changes)
