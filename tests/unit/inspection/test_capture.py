"""Captured weights equal those that each model computes with; heads can be switched off."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dragoman.attention import AttentionCore
from dragoman.attention_page.arrays import AttentionArrays, CapturedAttention
from dragoman.attention_page.kinds import KINDS, Head
from dragoman.data.batching import collate
from dragoman.errors import ModelError, UserError
from dragoman.inspection.ablation import heads_of, without_each
from dragoman.inspection.capture import capture
from dragoman.inspection.heads import heads_off
from dragoman.inspection.rows import greedy_outputs, target_log_probabilities
from dragoman.models.config.decoder_only import DecoderOnlyConfig
from dragoman.models.inference import inference
from dragoman.models.registry import build_model
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.search.config import SearchConfig
from dragoman.search.sampling import greedy_search
from dragoman.search.stepper import SingleModel
from dragoman.translation.translator import Translator
from tests.support.small_translator import copy_translator, random_translator, tokenizer
from tests.support.variants import VARIANTS

SOURCES = [[5, 6, 7, 8, 9], [10], [11, 12, 5]]
TARGETS = [[6, 7], [], [5, 8, 9, 10, 11, 12]]


@cache
def model(variant: str) -> Seq2Seq:
    torch.manual_seed(len(variant))
    built = build_model(replace(VARIANTS[variant], dropout=0.3))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return built


def modules(built: Seq2Seq) -> list[nn.Module]:
    attentions = built.attentions()
    return [module for kind in KINDS for module in getattr(attentions, kind)]


def kinds_of(captured: CapturedAttention) -> Iterator[tuple[str, AttentionArrays]]:
    for kind in KINDS:
        arrays = getattr(captured, kind)
        if arrays is not None:
            yield kind, arrays


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_weights_of_every_model_have_the_right_shape_and_rows_that_sum_to_one(variant: str) -> None:
    for source, target, captured in zip(SOURCES, TARGETS, capture(model(variant), SOURCES, TARGETS), strict=True):
        S, T = len(source) + 1, len(target) + 1
        if variant.startswith("decoder-only"):
            T += S
        shapes = {"encoder_self": (S, S), "decoder_self": (T, T), "encoder_decoder": (T, S)}
        assert captured.target == tuple(target)
        for kind, arrays in kinds_of(captured):
            assert arrays.weights.shape[2:] == shapes[kind]
            assert arrays.weights.dtype == np.float32
            expected = np.ones(arrays.weights.shape[:-1])
            if variant.startswith("decoder-only"):
                config = VARIANTS[variant]
                assert isinstance(config, DecoderOnlyConfig)
                for layer in range(config.layers):
                    if config.pattern_of(layer) == "compressed":
                        # A query attends to nothing before the first key is complete.
                        expected[layer, :, : config.compression - 1] = 0
            np.testing.assert_allclose(arrays.weights.sum(-1), expected, atol=1e-5)
        if captured.decoder_self is not None:
            assert (np.triu(captured.decoder_self.weights, 1) == 0).all()


def test_architectures_have_the_kinds_of_attention_of_their_papers() -> None:
    def layers(variant: str) -> dict[str, tuple[int, ...]]:
        [captured] = capture(model(variant), SOURCES[:1], TARGETS[:1])
        return {kind: arrays.weights.shape[:2] for kind, arrays in kinds_of(captured)}

    universal = VARIANTS["universal, more steps in the decoder"]
    steps = layers("universal, more steps in the decoder")
    assert steps["encoder_self"] == (universal.encoder_steps, universal.heads)  # type: ignore[attr-defined]
    assert steps["decoder_self"] == steps["encoder_decoder"]
    for name, config in VARIANTS.items():
        shapes = layers(name)
        match name.split(",")[0]:
            case "transformer":
                assert list(shapes) == list(KINDS)
                assert shapes["encoder_self"] == (config.encoder_layers, config.heads)  # type: ignore[attr-defined]
                assert shapes["encoder_decoder"] == (config.decoder_layers, config.heads)  # type: ignore[attr-defined]
            case "convolutional":
                assert shapes == {"encoder_decoder": (config.decoder_layers, 1)}  # type: ignore[attr-defined]
            case "recurrent":
                attends = config.attention != "none"  # type: ignore[attr-defined]
                assert shapes == ({"encoder_decoder": (1, 1)} if attends else {})


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_padding_of_a_batch_is_removed(variant: str) -> None:
    together = capture(model(variant), SOURCES, TARGETS)
    for source, target, batched in zip(SOURCES, TARGETS, together, strict=True):
        [alone] = capture(model(variant), [source], [target])
        for kind, arrays in kinds_of(alone):
            weights = getattr(batched, kind).weights
            # With adaptive depth, a batch has as many steps as its last position to halt.
            np.testing.assert_allclose(weights[: len(arrays.weights)], arrays.weights, atol=2e-5)


# The captured weights of compressed attention are those of tokens, not of its keys.
@pytest.mark.parametrize("variant", [name for name in sorted(VARIANTS) if "compressed" not in name])
def test_the_weights_equal_those_of_the_fast_path(variant: str) -> None:
    """For all calls and rows, the output of the model's kernel equals weights x values."""
    recorded: list[tuple[Any, ...]] = []
    built = model(variant)
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: recorded.append((inputs, output)))
        for module in modules(built)
        if isinstance(module, AttentionCore)
    ]
    attention = capture(built, SOURCES, TARGETS, details=True)
    for hook in hooks:
        hook.remove()
    calls, modules_of = iter(recorded), built.attentions()
    # In the order of computation: the encoder's layers, then both attentions of each decoder layer.
    for kinds in (KINDS[:1], KINDS[1:]):
        present = [kind for kind in kinds if any(isinstance(each, AttentionCore) for each in getattr(modules_of, kind))]
        layers = len(getattr(attention[0], present[0]).weights) if present else 0
        for layer, kind in ((layer, kind) for layer in range(layers) for kind in present):
            inputs, output = next(calls)
            for row, captured in enumerate(attention):
                arrays = getattr(captured, kind)
                T, S = arrays.weights.shape[2:]
                product = torch.from_numpy(arrays.weights[layer]) @ inputs[2][row, :, :S]
                torch.testing.assert_close(output[row, :, :T], product, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(arrays.details.output[layer], product.numpy(), atol=1e-4)
    assert next(calls, None) is None


@pytest.mark.parametrize(
    "variant",
    ["transformer, relative", "transformer, rotary", "transformer, scaled, relative", "universal, free constants"],
)
def test_weights_can_be_computed_from_the_details(variant: str) -> None:
    """softmax(scale q·k + bias), and the norm of the output."""
    [captured] = capture(model(variant), SOURCES[:1], TARGETS[:1], details=True)
    for kind, arrays in kinds_of(captured):
        details = arrays.details
        assert details is not None
        root = details.query.shape[-1] ** -0.5
        assert details.scale == {"transformer, scaled, relative": 0.7, "universal, free constants": 0.5}.get(
            variant, root
        )
        scores = details.scale * details.query @ details.key.swapaxes(-1, -2)
        if details.bias is not None:
            scores = scores + details.bias
        if kind == "decoder_self":
            scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
        expected = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(arrays.weights, expected / expected.sum(-1, keepdims=True), atol=1e-5)
        output = arrays.weights @ details.value
        np.testing.assert_allclose(details.output_norm, np.sqrt((output**2).sum(-1)), rtol=1e-3, atol=1e-5)
    assert (captured.encoder_self.details.bias is not None) == ("relative" in variant)  # type: ignore[union-attr]


def test_parity_with_torch_multihead_attention() -> None:
    """The weights of the first encoder layer equal those of an independent implementation."""
    built = model("transformer, " + next(n.split(", ", 1)[1] for n in VARIANTS if n.startswith("transformer")))
    assert isinstance(built, Transformer)
    ours = built.encoder.layers[0].self_attention
    D = ours.output.out_features
    theirs = nn.MultiheadAttention(D, ours.heads, bias=False, batch_first=True)
    batch = collate(SOURCES[:1], TARGETS[:1])
    with inference([built]), torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat((ours.query.weight, ours.key.weight, ours.value.weight)))
        x = built.source_embedding(batch.source)
        _, expected = theirs(x, x, x, average_attn_weights=False)
    [captured] = capture(built, SOURCES[:1], TARGETS[:1])
    assert captured.encoder_self is not None
    np.testing.assert_allclose(captured.encoder_self.weights[0], expected[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_a_capture_leaves_the_model_unchanged(variant: str) -> None:
    built = model(variant).train()
    before = {name: value.clone() for name, value in built.state_dict().items()}
    capture(built, SOURCES)
    with heads_off(built, [[Head("encoder_decoder", 0, 0)]]):
        pass
    assert built.training
    assert not any(module._forward_hooks for module in built.modules())
    for name, value in built.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_hooks_are_removed_after_an_error() -> None:
    built = model("transformer, rotary")
    with pytest.raises(IndexError):
        capture(built, [[1_000_000]], [[5]])
    assert not any(module._forward_hooks for module in built.modules())


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_the_default_target_is_the_output_of_greedy_search(variant: str) -> None:
    """It equals the output of the translator with a beam of 1."""
    built = model(variant)
    batch = collate(SOURCES, TARGETS)
    outputs = greedy_outputs(built, SOURCES)
    with inference([built]):
        stepper = SingleModel(built)
        state = stepper.start(batch.source, batch.source_mask)
        lengths = [len(source) for source in SOURCES]
        expected = greedy_search(stepper, state, lengths, SearchConfig(beam=1), torch.device("cpu"), [[]] * 3)
    assert [output.tokens for output in outputs] == [hypothesis.tokens for hypothesis in expected]
    for output, hypothesis in zip(outputs, expected, strict=True):
        assert output.log_probability == pytest.approx(hypothesis.log_probability, abs=1e-3)
    assert [each.target for each in capture(built, SOURCES)] == [output.tokens for output in outputs]


@contextmanager
def projection_zeroed(built: Seq2Seq, head: Head) -> Iterator[None]:
    """Switch off a head of a Transformer in another way: set its columns of W^O to zero."""
    assert isinstance(built, Transformer)
    layers: Any = built.encoder.layers if head.kind == "encoder_self" else built.decoder.layers
    attention = layers[head.layer]
    attention = attention.memory_attention if head.kind == "encoder_decoder" else attention.self_attention
    width = attention.value.out_features // attention.heads
    columns = attention.output.weight.data[:, head.head * width : (head.head + 1) * width]
    original = columns.clone()
    columns.zero_()
    yield
    columns.copy_(original)


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_of_a_head_that_is_off_is_zero(kind: Any) -> None:
    built = model("transformer, rotary")
    head = Head(kind, 0, 1)
    [source], [target] = SOURCES[:1], TARGETS[:1]
    with heads_off(built, [[head]]):
        log_probabilities = target_log_probabilities(built, [source], [target])
    with projection_zeroed(built, head):
        expected = target_log_probabilities(built, [source], [target])
    assert log_probabilities == pytest.approx(expected, abs=1e-4)
    assert log_probabilities != pytest.approx(target_log_probabilities(built, [source], [target]), abs=1e-4)


@pytest.mark.parametrize("variant", ["transformer, relative", "universal, fixed", "recurrent, gru", "convolutional"])
def test_a_different_head_can_be_off_in_each_row(variant: str) -> None:
    """Switching off a head per row of one batch equals switching them off one after the other."""
    name = next(each for each in sorted(VARIANTS) if each.startswith(variant))
    built = model(name)
    [captured] = capture(built, SOURCES[:1], TARGETS[:1])
    heads = heads_of(built, captured)
    assert heads
    ablated, with_all = without_each(built, SOURCES[0], TARGETS[0], heads)
    assert [each.head for each in ablated] == heads
    for result in ablated:
        with heads_off(built, [[result.head]]):
            [alone] = greedy_outputs(built, SOURCES[:1])
            [log_probability] = target_log_probabilities(built, SOURCES[:1], TARGETS[:1])
        assert result.log_probability == pytest.approx(log_probability, abs=1e-3)
        assert result.output == alone.tokens
    [log_probability_with_all] = target_log_probabilities(built, SOURCES[:1], TARGETS[:1])
    assert with_all == greedy_outputs(built, SOURCES[:1])[0].tokens
    assert any(abs(result.log_probability - log_probability_with_all) > 1e-3 for result in ablated)


def test_a_recurrent_attention_has_no_details() -> None:
    name = next(each for each in sorted(VARIANTS) if each.startswith("recurrent, ") and "none" not in each)
    [captured] = capture(model(name), SOURCES[:1], TARGETS[:1], details=True)
    assert captured.encoder_decoder is not None
    assert captured.encoder_decoder.details is None


def test_a_model_without_attention_is_an_error() -> None:
    size = tokenizer().source_size
    without = build_model(
        replace(VARIANTS["recurrent, lstm, one vector"], source_vocabulary=size, target_vocabulary=size)
    )
    translator = Translator.from_parts([without], tokenizer())
    with pytest.raises(ModelError, match="has no attention, so there is nothing to show"):
        translator.attention("the lamp", "door")
    with pytest.raises(ModelError, match="has no attention, so it has no heads"):
        translator.measure_heads([("the lamp", "door")])
    with pytest.raises(UserError, match="so it cannot align words"):
        translator.alignments_by_head([("the lamp", "door")])


def test_a_text_that_is_too_long_is_refused_before_it_is_translated() -> None:
    translator, engine = copy_translator(max_source_tokens=5)
    with pytest.raises(UserError, match=r"the text has .* at most 5"):
        translator.attention("the lamp is on " * 1000)
    assert engine.read == []
    assert translator.fits([("the lamp", "wait"), ("wait", "the lamp is on now, the door is open")]) == [True, False]


def test_attention_of_an_ensemble_is_not_available() -> None:
    with pytest.raises(UserError, match="for one model"):
        random_translator(models=2).attention("the lamp", "door")
