"""Tests of the interface `Seq2Seq`, for every variant of every architecture in `tests/support/variants`.

`tests/property/test_step_equals_decode` tests that decoding step by step equals decoding all positions at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from dragoman.errors import SettingsError
from dragoman.models.description import ModelDescription
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.registry import architecture_of, architectures, build_model, preset
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.storage import load_model, save_model, weights_of
from dragoman.packing import Packed, Padded
from dragoman.training.loss import label_smoothed_loss
from tests.support.variants import VARIANTS
from tests.support.variants.sizes import V

Model = Seq2Seq
EACH_VARIANT = pytest.mark.parametrize("variant", VARIANTS)
# A decoder-only model has no encoder; `test_decoder_only` has the corresponding tests.
EACH_ENCODER_DECODER = pytest.mark.parametrize(
    "variant", [name for name, config in VARIANTS.items() if architecture_of(config) != "decoder-only"]
)
ONE_OF_EACH_ENCODER_DECODER = pytest.mark.parametrize(
    "variant",
    [
        next(name for name in VARIANTS if name.startswith(architecture))
        for architecture in architectures("seq2seq")
        if architecture != "decoder-only"
    ],
)


def build(variant: str, **changes: Any) -> Model:
    torch.manual_seed(0)
    return build_model(replace(VARIANTS[variant], **changes))


def randomised(variant: str) -> Model:
    """Return a model in float64, without dropout, with random noise added to all weights, so that no bias is zero."""
    model = build(variant, dropout=0.0).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def encoder_decoder(model: Model) -> EncoderDecoder[Any, Any, Any]:
    assert isinstance(model, EncoderDecoder)
    return model


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(seed))


def masks(*lengths: int, width: int) -> Tensor:
    # [W] < [B, 1] -> [B, W]
    return torch.arange(width) < torch.tensor(lengths).unsqueeze(1)


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return source, source mask, target and target mask of four sentences."""
    return tokens(4, 9), masks(5, 1, 9, 7, width=9), tokens(4, 8, seed=1), masks(2, 8, 1, 7, width=8)


def gradients(model: Model) -> dict[str, Tensor]:
    by_name = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        by_name[name] = parameter.grad
    return by_name


# Layouts


@contextmanager
def recorded_packing() -> Iterator[dict[str, list[Tensor]]]:
    """Record the masks for which a packed layout is created, and the batches that are packed."""
    masks_of_layouts: list[Tensor] = []
    packed: list[Tensor] = []
    init, rows = Packed.__init__, Packed.rows

    def recorded_init(self: Packed, mask: Tensor) -> None:
        masks_of_layouts.append(mask)
        init(self, mask)

    def recorded_rows(self: Packed, x: Tensor) -> Tensor:
        if x.requires_grad:
            packed.append(x)
        return rows(self, x)

    with mock.patch.object(Packed, "__init__", recorded_init), mock.patch.object(Packed, "rows", recorded_rows):
        yield {"layouts": masks_of_layouts, "packed": packed}


@EACH_ENCODER_DECODER
def test_each_side_of_a_batch_is_packed_once(variant: str) -> None:
    """From the embeddings to the loss. A convolutional model packs once more, after the dropout of its output."""
    model = build(variant)
    source, source_mask, target, target_mask = batch()
    with recorded_packing() as records:
        decoded = model(source, source_mask, target, target_mask)
        loss, _ = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, target, 0.1)
        (loss + decoded.cost).backward()
    assert [id(mask) for mask in records["layouts"]] == [id(source_mask), id(target_mask)]
    # A recurrent model needs padded batches, and only its output is packed, for the loss.
    times = {"transformer": 2, "universal": 2, "convolutional": 3, "recurrent": 1}
    assert len(records["packed"]) <= times.get(architecture_of(VARIANTS[variant]), 2)


@EACH_ENCODER_DECODER
def test_packed_rows_equal_a_padded_batch(variant: str) -> None:
    """On a GPU, batches are not packed: states, loss, cost and gradients must be the same."""
    source, source_mask, target, target_mask = batch()
    results = []
    for layout in (Packed, Padded):
        model = encoder_decoder(randomised(variant))
        decoded = model.decode_rows(target, layout(target_mask), model.encode_rows(source, layout(source_mask)))
        loss, count = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, target, 0.1)
        (loss + decoded.cost).backward()
        states = decoded.states[target_mask].detach()
        results.append((states, loss.detach(), decoded.cost.detach(), count, gradients(model)))
    assert results[0][3] == target_mask.sum()
    # The loss is in float32 in both cases.
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@EACH_VARIANT
def test_steps_unpack_each_part_of_the_memory_once(variant: str) -> None:
    model = build(variant).eval()
    source, mask, target, _ = batch()
    memory = model.encode(source, mask)
    unpacked: list[Tensor] = []
    unpack = Packed.batch

    def recorded_batch(self: Packed, rows: Tensor) -> Tensor:
        unpacked.append(rows)
        return unpack(self, rows)

    with mock.patch.object(Packed, "batch", recorded_batch):
        state = model.start(memory)
        for token in target[:, :3].T:
            _, state = model.step(token, state)
    assert len(unpacked) == len(set(map(id, unpacked))), "a tensor is unpacked twice"


@torch.no_grad()
@EACH_ENCODER_DECODER
def test_forward_is_encode_and_decode(variant: str) -> None:
    model = randomised(variant).eval()
    source, source_mask, target, target_mask = batch()
    decoded = model(source, source_mask, target, target_mask)
    memory = model.encode(source, source_mask)
    assert decoded.states[target_mask].equal(model.decode_states(target, memory, target_mask)[target_mask])
    assert decoded.cost.shape == ()
    assert decoded.cost.isfinite()
    # Without a target mask the target is not packed; its padding is at the end.
    torch.testing.assert_close(
        model.decode_states(target, memory)[target_mask], decoded.states[target_mask], rtol=1e-6, atol=1e-7
    )
    states = model.decode_states(target, memory, target_mask)
    assert states.shape == (4, 8, VARIANTS[variant].d_model)
    assert model.decode(target, memory).shape == (4, 8, V)
    assert model.project(states).equal(states @ model.output.weight.t())


@torch.no_grad()
@EACH_ENCODER_DECODER
def test_memory_in_any_layout_and_order(variant: str) -> None:
    model = encoder_decoder(randomised(variant).eval())
    source, source_mask, target, target_mask = batch()
    memory = model.encode(source, source_mask)
    order = torch.tensor([2, 2, 0])
    reordered = memory.reorder(order)
    assert reordered.states[source_mask[order]].equal(memory.states[order][source_mask[order]])
    assert reordered.mask.equal(source_mask[order])
    expected = model.decode(target, memory, target_mask)[order][target_mask[order]]
    for target_layout in (Packed, Padded):
        for other in (memory.matching(target_layout(target_mask)).reorder(order), reordered):
            decoded = model.decode_rows(target[order], target_layout(target_mask[order]), other)
            actual = model.project(decoded.states)[target_mask[order]]
            torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7)


# Weights


@ONE_OF_EACH_ENCODER_DECODER
@pytest.mark.parametrize(
    ("tied", "same_source", "same_output"),
    [("three-way", True, True), ("two-way", False, True), ("none", False, False)],
)
def test_tying(variant: str, tied: str, same_source: bool, same_output: bool) -> None:
    model = encoder_decoder(build(variant, tied_embeddings=tied))
    source, target = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
    assert (source is target) == same_source
    assert (model.output.weight is target) == same_output


@EACH_VARIANT
def test_the_same_seed_builds_the_same_model(variant: str) -> None:
    torch.testing.assert_close(build(variant).state_dict(), build(variant).state_dict(), rtol=0, atol=0)


@EACH_VARIANT
def test_a_saved_model_can_be_loaded(variant: str, tmp_path: Path) -> None:
    model, config = build(variant).eval(), VARIANTS[variant]
    description = ModelDescription(architecture=architecture_of(config), model=config, trained_length=9)
    save_model(tmp_path, description, weights_of(model))
    loaded = load_model(tmp_path)
    assert type(loaded) is type(model)
    source, mask, target, _ = batch()
    with torch.no_grad():
        expected = model.decode(target, model.encode(source, mask))
        assert loaded.decode(target, loaded.encode(source, mask)).equal(expected)


@EACH_VARIANT
def test_the_settings_list_every_tensor_of_the_model(variant: str) -> None:
    """With this list, a file is checked before a model is built."""
    listed = list(VARIANTS[variant].tensors())
    assert len({tensor.name for tensor in listed}) == len(listed)
    weights = weights_of(build(variant))
    assert {tensor.name: (tensor.shape, tensor.integer) for tensor in listed} == {
        name: (tuple(tensor.shape), not tensor.is_floating_point()) for name, tensor in weights.items()
    }


@pytest.mark.parametrize("architecture", architectures("seq2seq"))
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_vocabulary": 0}, "source_vocabulary must be at least 1, not 0"),
        ({"target_vocabulary": -1}, "target_vocabulary must be at least 1, not -1"),
        ({"d_model": 0}, "d_model must be at least 1, not 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), not 1.0"),
        ({"dropout": -0.1}, "dropout"),
        ({"target_vocabulary": 21}, "20 subwords and the target vocabulary 21"),
    ],
)
def test_invalid_settings(architecture: str, changes: dict[str, Any], message: str) -> None:
    config = preset("tiny", 20, 20, joint=True, architecture=architecture)
    with pytest.raises(ValueError, match=message):
        replace(config, **changes)


@pytest.mark.parametrize("architecture", architectures("seq2seq"))
@pytest.mark.parametrize("value", [2**31, 2**64, 10**100], ids=["31 bits", "64 bits", "a googol"])
def test_all_sizes_are_bounded(architecture: str, value: int) -> None:
    """This matters most for sizes whose cost is not visible in the weights, such as steps and positions."""
    config = preset("tiny", 20, 20, joint=True, architecture=architecture)
    sizes = [field.name for field in fields(config) if "int" in str(field.type)]
    assert {"source_vocabulary", "target_vocabulary", "d_model"} <= set(sizes)
    for name in sizes:
        changes: dict[str, Any] = {name: value}
        with pytest.raises(SettingsError, match=rf"^{name} must be at most [\d,]+, not ") as caught:
            replace(config, **changes)
        assert len(str(caught.value)) < 200


# Training


@EACH_VARIANT
def test_every_weight_has_a_gradient(variant: str) -> None:
    model = build(variant)
    source, target = tokens(8, 7), tokens(8, 7, seed=1)
    no_padding = torch.ones_like(source, dtype=torch.bool)
    decoded = model(source, no_padding, target, no_padding)
    loss, _ = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, tokens(8, 7, seed=2), 0.1)
    (loss + decoded.cost).backward()
    config: Any = VARIANTS[variant]
    for name, gradient in gradients(model).items():
        # The softmax does not depend on the bias of the keys, and with a single step halting has no effect.
        if name.endswith("key.bias") or ("halting" in name and config.encoder_steps == config.decoder_steps == 1):
            continue
        # Some distances and positions do not occur in these sentences.
        if not (name.endswith("positions.embedding.weight") or "relative" in name):
            assert gradient.abs().max() > 1e-9, name


@EACH_VARIANT
def test_a_source_of_only_padding_gives_no_nan(variant: str) -> None:
    """A batch may contain an empty row; outputs and gradients must be finite."""
    model = randomised(variant)
    source, target, target_mask = tokens(2, 5), tokens(2, 4), masks(4, 3, width=4)
    decoded = model(source, masks(5, 0, width=5), target, target_mask)
    (model.project(decoded.states).square().sum() + decoded.cost).backward()
    assert decoded.rows.isfinite().all()
    assert decoded.cost.isfinite()
    gradients(model)
    model.zero_grad()
    output = model.decode(target, model.encode(source, masks(5, 0, width=5)))
    output.square().sum().backward()
    assert output.isfinite().all()
    gradients(model)


@EACH_VARIANT
def test_dropout_is_active_in_training_only_and_depends_on_the_seed(variant: str) -> None:
    without_dropout, model = build(variant, dropout=0.0), build(variant, dropout=0.5)
    model.load_state_dict(without_dropout.state_dict())
    source, mask, target, _ = batch()

    def logits(model: Model) -> Tensor:
        return model.decode(target, model.encode(source, mask))

    torch.manual_seed(1)
    first = logits(model)
    assert not torch.allclose(first, logits(without_dropout), atol=1e-3)
    torch.manual_seed(1)
    assert logits(model).equal(first)
    # Evaluation has no dropout. The weights are loaded again because batch normalisation has updated its statistics.
    model.load_state_dict(without_dropout.state_dict())
    torch.testing.assert_close(logits(model.eval()), logits(without_dropout.eval()))


@EACH_VARIANT
def test_results_under_autocast_are_close(variant: str) -> None:
    """In training and step by step; gradients are in float32."""
    steps = {"encoder_steps": 1, "decoder_steps": 1} if variant.startswith("universal") else {}
    model = build(variant, dropout=0.0, **steps).eval()
    source, source_mask, target, target_mask = batch()
    with torch.no_grad():
        expected = model.decode(target, model.encode(source, source_mask), target_mask)
        with torch.autocast("cpu", torch.bfloat16):
            memory = model.encode(source, source_mask)
            actual = model.decode(target, memory, target_mask)
            first, _ = model.step(target[:, 0], model.start(memory))
    assert actual.dtype == first.dtype == torch.bfloat16
    for half, full in ((actual[target_mask], expected[target_mask]), (first, expected[:, 0])):
        assert (half.float() - full).norm() < 0.05 * full.norm()
    with torch.autocast("cpu", torch.bfloat16):
        decoded = model.train()(source, source_mask, target, target_mask)
        loss, _ = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, target, 0.1)
    assert decoded.rows.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    (loss + decoded.cost).backward()
    assert all(gradient.dtype == torch.float32 for gradient in gradients(model).values())


@EACH_VARIANT
def test_layers_to_compile_are_called_in_training(variant: str) -> None:
    """Each is listed once and is called by `forward`."""
    model = build(variant)
    layers, called = list(model.layers_to_compile()), set()
    for layer in layers:
        layer.register_forward_hook(lambda module, inputs, output: called.add(id(module)))
    model(*batch())
    assert called == {id(layer) for layer in layers}
    assert len(called) == len(layers)


# Steps


@torch.no_grad()
@EACH_VARIANT
def test_steps_of_an_empty_batch(variant: str) -> None:
    """When every output is finished, no rows remain."""
    model = build(variant).eval()
    source, mask, _, _ = batch()
    none = torch.empty(0, dtype=torch.int64)
    logits, state = model.step(none, model.start(model.encode(source, mask)).reorder(none))
    assert logits.shape == (0, V)
    assert model.step(none, state)[0].shape == (0, V)
