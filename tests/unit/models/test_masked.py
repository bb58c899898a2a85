"""The encoder that is trained by masking."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.description import ModelDescription
from dragoman.models.masked import MaskedModel, build_masked
from dragoman.models.registry import architectures, text_preset
from dragoman.models.storage import load_encoder, load_language_model, load_model, save_model, weights_of
from tests.support.variants.masked import VARIANTS
from tests.support.variants.sizes import V

EACH_VARIANT = pytest.mark.parametrize("variant", VARIANTS)


def randomised(variant: str, **changes: Any) -> MaskedModel:
    """Return a model in float64, without dropout, with random noise added to all weights, so that no bias is zero."""
    torch.manual_seed(0)
    model = build_masked(replace(VARIANTS[variant], dropout=0.0, **changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(0))


def test_embeddings_are_as_large_as_the_sinusoids_that_are_added() -> None:
    config = text_preset("tiny", V, architecture="masked")
    assert isinstance(config, MaskedConfig)
    sinusoidal, rotary = (build_masked(replace(config, positions=positions)) for positions in ("sinusoidal", "rotary"))
    assert sinusoidal.embedding.scale == config.d_model**0.5
    assert float(sinusoidal.embedding.tokens.weight.detach().std()) * config.d_model**0.5 == pytest.approx(1, rel=0.1)
    assert rotary.embedding.scale is None
    assert float(rotary.embedding.tokens.weight.detach().std()) == pytest.approx(0.02, rel=0.1)


@EACH_VARIANT
def test_the_settings_list_every_tensor_of_the_model(variant: str) -> None:
    listed = {tensor.name: tensor.shape for tensor in VARIANTS[variant].tensors()}
    assert listed == {name: tuple(tensor.shape) for name, tensor in weights_of(randomised(variant)).items()}


@EACH_VARIANT
def test_a_saved_model_can_be_loaded(variant: str, tmp_path: Path) -> None:
    model = build_masked(VARIANTS[variant]).eval()
    description = ModelDescription(architecture="masked", model=VARIANTS[variant], trained_length=9)
    save_model(tmp_path, description, weights_of(model))
    text = tokens(2, 7)
    mask = torch.ones_like(text, dtype=torch.bool)
    assert load_encoder(tmp_path).encode(text, mask).equal(model.encode(text, mask))
    for load in (load_model, load_language_model):
        with pytest.raises(ModelError, match="is an encoder of text"):
            load(tmp_path)


@torch.no_grad()
@EACH_VARIANT
def test_states_do_not_depend_on_padding(variant: str) -> None:
    model = randomised(variant).eval()
    text, segments = tokens(3, 9), torch.randint(2, (3, 9))
    lengths = torch.tensor([9, 4, 1])
    mask = torch.arange(9) < lengths[:, None]
    states = model.encode(text, mask, segments)
    assert states.shape == (3, 9, 12)
    for row, length in enumerate(lengths.tolist()):
        alone = text[row : row + 1, :length]
        expected = model.encode(alone, torch.ones_like(alone, dtype=torch.bool), segments[row : row + 1, :length])
        torch.testing.assert_close(states[row, :length], expected[0], rtol=1e-9, atol=1e-9)


@torch.no_grad()
@EACH_VARIANT
def test_layers_end_with_the_encoded_text_and_begin_with_the_embeddings(variant: str) -> None:
    model = randomised(variant).eval()
    text = tokens(2, 7)
    mask = torch.arange(7) < torch.tensor([[7], [5]])
    layers = model.layers(text, mask)
    assert len(layers) == 3
    assert layers[0][mask].equal(model.embedding(text)[mask])
    assert layers[-1][mask].equal(model.encode(text, mask)[mask])
    assert len(model.attentions().encoder_self) == len(list(model.layers_to_compile())) == 2


@torch.no_grad()
@EACH_VARIANT
def test_windows_of_several_documents(variant: str) -> None:
    """In training, a token attends to its own document only, wherever the document is in the window."""
    model = randomised(variant, positions="rotary").eval()
    first, second = tokens(1, 5), tokens(2, 4)[1:]
    window = torch.cat((first, second), dim=1)
    documents = torch.tensor([[3] * 5 + [4] * 4])
    states = model(window, documents=documents)
    for text, rows in ((first, states[:5]), (second, states[5:])):
        expected = model.encode(text, torch.ones_like(text, dtype=torch.bool))
        # The table of rotary positions is in float32.
        torch.testing.assert_close(rows, expected[0], rtol=1e-6, atol=1e-6)
    whole = model.encode(window, torch.ones_like(window, dtype=torch.bool))
    torch.testing.assert_close(model(window), whole[0], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(model(window), states)


@EACH_VARIANT
def test_every_weight_has_a_gradient(variant: str) -> None:
    model = randomised(variant)
    text = tokens(8, 7)
    states = model(text, segments=torch.randint(max(1, VARIANTS[variant].segments), (8, 7))).view(8, 7, 12)
    total = states.square().sum()
    if model.output is not None:
        total = total + model.predict(states).log_softmax(-1)[..., 5].sum()
    if model.next_sentence is not None:
        total = total + model.follows(states[:, 0]).log_softmax(-1)[:, 1].sum()
    elif model.pooler is not None:
        total = total + model.pool(states[:, 0]).sum()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # The softmax does not depend on the bias of the keys.
        assert parameter.grad.abs().max() > 1e-9 or name.endswith("key.bias"), name


@pytest.mark.parametrize(("placement", "activation"), [("post", "gelu"), ("pre", "relu")])
def test_parity_with_torch(placement: Any, activation: Any) -> None:
    """The stack of layers equals torch.nn.TransformerEncoder with the same weights, in outputs and gradients."""
    epsilon = 1e-12 if placement == "post" else 1e-6
    model = randomised("bert", norm_placement=placement, activation=activation, norm_epsilon=epsilon)
    layer = nn.TransformerEncoderLayer(
        12, 2, 20, 0.0, activation, epsilon, batch_first=True, norm_first=placement == "pre", dtype=torch.float64
    )
    final = nn.LayerNorm(12, eps=epsilon, dtype=torch.float64) if placement == "pre" else None
    theirs = nn.TransformerEncoder(layer, 2, final, enable_nested_tensor=False)
    ours = dict(model.encoder.named_parameters())
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            own = (
                name.replace("self_attn", "self_attention")
                .replace("out_proj", "output")
                .replace("linear1", "feed_forward.inner")
                .replace("linear2", "feed_forward.outer")
                .replace("norm1", "attention_residual.norm")
                .replace("norm2", "feed_forward_residual.norm")
            )
            if name.startswith("norm."):
                own = f"final_{name}"
            if "in_proj_" in name:
                kind = name.rpartition("_")[2]
                projections = [own.replace(f"in_proj_{kind}", f"{part}.{kind}") for part in ("query", "key", "value")]
                parameter.copy_(torch.cat([ours[projection] for projection in projections]))
            else:
                parameter.copy_(ours[own])
    text, mask = tokens(3, 9), torch.arange(9) < torch.tensor([[9], [4], [1]])
    x = model.embedding(text)
    expected, actual = theirs(x, src_key_padding_mask=~mask)[mask], model.encode(text, mask)[mask]
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    gradients = [
        torch.autograd.grad(states.sin().sum(), model.embedding.tokens.weight, retain_graph=True)[0]
        for states in (actual, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-9)


def test_presets_and_their_sizes() -> None:
    assert "masked" in architectures("encoder")
    bert = text_preset("bert-base", 30_522, architecture="masked")
    # BertForPreTraining of the reference implementation; the output projection is tied.
    assert sum(torch.Size(tensor.shape).numel() for tensor in bert.tensors()) == 110_106_428


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_sentence": True}, "next_sentence needs pooler = true and segments = 2"),
        ({"positions": "learned", "max_positions": 100}, "context is 128, but there are only max_positions = 100"),
        ({"norm": "batch"}, "norm = 'batch' is not available"),
        ({"segments": -1}, "segments must be at least 0"),
    ],
)
def test_invalid_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        MaskedConfig(vocabulary=V, **changes)


def test_all_sizes_are_bounded() -> None:
    for field in fields(MaskedConfig):
        if "int" in str(field.type):
            changes: dict[str, Any] = {field.name: 2**64}
            with pytest.raises(SettingsError, match=rf"^{field.name} must be at most [\d,]+, not "):
                replace(VARIANTS["default"], **changes)


def test_a_text_longer_than_the_learned_positions() -> None:
    model = randomised("no head", max_positions=128)
    assert model.max_context == 128
    with pytest.raises(CorpusError, match="longer than the 128 learned positions"):
        model.encode(tokens(1, 129), torch.ones(1, 129, dtype=torch.bool))
