"""Transformer-XL: segments and memory, where gradients stop, documents, and reading with a memory of any length."""

import re
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman import native
from dragoman.attention import naive_attention
from dragoman.errors import SettingsError
from dragoman.models import transformer_xl
from dragoman.models.config.transformer_xl import PRESETS, TransformerXLConfig
from dragoman.models.state import DecoderState
from dragoman.models.storage import weights_of
from dragoman.models.transformer_xl import TransformerXL, TransformerXLState, build_transformer_xl

V, D = 17, 12
PLACEMENTS = pytest.mark.parametrize("placement", ["post", "pre"])


def model_of(**changes: Any) -> TransformerXL:
    """Return a model in float64, without dropout, with noise added to all weights; the same weights in every call."""
    settings: dict[str, Any] = {
        "vocabulary": V,
        "layers": 3,
        "context": 12,
        "segment": 4,
        "memory": 4,
        "d_model": D,
        "heads": 3,
        "d_ff": 20,
        "dropout": 0.0,
    }
    torch.manual_seed(0)
    model = build_transformer_xl(TransformerXLConfig(**{**settings, **changes})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(V, (rows, length), generator=torch.Generator().manual_seed(seed))


def test_a_position_base_changes_the_distances() -> None:
    text = tokens(2, 12)
    assert not torch.allclose(model_of(position_base=50.0)(text).states, model_of()(text).states, atol=1e-3)
    with pytest.raises(SettingsError, match="position_base must be at least 1"):
        model_of(position_base=0.0)


def read_in_pieces(model: TransformerXL, text: Tensor, pieces: list[int], memory: int | None = None) -> Tensor:
    state: DecoderState = model.start(len(text), memory)
    outputs = []
    for piece in text.split(pieces, dim=1):
        states, state = model.read(piece, state)
        outputs.append(states)
    assert isinstance(state, TransformerXLState)
    assert state.position == text.shape[1]
    return torch.cat(outputs, dim=1)


@PLACEMENTS
@pytest.mark.parametrize(("layers", "memory"), [(1, 12), (3, 12), (3, 8)], ids=str)
def test_memory_of_everything_equals_the_full_context(layers: int, memory: int, placement: str) -> None:
    """Segments with a memory of all earlier positions equal one segment of the whole text."""
    text = tokens(2, 12)
    whole = model_of(layers=layers, norm_placement=placement, segment=12, memory=0)(text).states
    model = model_of(layers=layers, norm_placement=placement, memory=memory)
    torch.testing.assert_close(model(text).states, whole)
    for pieces in ([12], [1] * 12, [5, 6, 0, 1]):
        torch.testing.assert_close(read_in_pieces(model, text, pieces, memory=11), whole)


@PLACEMENTS
@pytest.mark.parametrize("memory", [0, 3, 4, 9])
@pytest.mark.parametrize("length", [4, 11, 12])
def test_segments_equal_one_computation_under_a_mask(
    length: int, memory: int, placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gradients, segments are computed one by one; without, several at once, as many as `AT_ONCE` allows."""
    model = model_of(memory=memory, norm_placement=placement)
    text, documents = tokens(2, length), torch.randint(2, (2, length)).cumsum(dim=1)
    for rows in (None, documents):
        one_by_one = model(text, rows).states
        for at_once in (1024, 8, 1):
            monkeypatch.setattr(transformer_xl, "AT_ONCE", at_once)
            with torch.no_grad():
                torch.testing.assert_close(model(text, rows).states, one_by_one)


@torch.no_grad()
@pytest.mark.parametrize("memory", [0, 1, 5, None])
def test_reading_in_pieces_equals_steps(memory: int | None) -> None:
    model = model_of()
    text = tokens(2, 13)
    expected = read_in_pieces(model, text, [13], memory)
    state: DecoderState = model.start(2, memory)
    for t in range(13):
        logits, state = model.step(text[:, t], state)
        torch.testing.assert_close(logits, model.project(expected[:, t]))
        assert isinstance(state, TransformerXLState)
        assert state.layers[0].key.shape[2] <= state.memory
    torch.testing.assert_close(read_in_pieces(model, text, [2, 7, 4], memory), expected)
    # By default, texts of at most memory + segment tokens are read as in training.
    if memory is None:
        torch.testing.assert_close(expected[:, :8], model(text[:, :8]).states)


@torch.no_grad()
def test_reordered_texts() -> None:
    model = model_of()
    text, rows = tokens(3, 9), torch.tensor([2, 0, 2, 1])
    _, state = model.read(text[:, :6], model.start(3))
    states, _ = model.read(text[rows, 6:], state.reorder(rows))
    torch.testing.assert_close(states, read_in_pieces(model, text[rows], [9])[:, 6:])


@torch.no_grad()
@pytest.mark.parametrize("memory", [1, 2, 4])
def test_the_receptive_field_is_layers_times_memory(memory: int) -> None:
    """The last state depends on the token layers · memory positions before it, and on none before that one."""
    model = model_of()
    text = tokens(1, 20)
    last = read_in_pieces(model, text, [20], memory)[:, -1]
    for before, depends in ((3 * memory, True), (3 * memory + 1, False)):
        changed = text.clone()
        changed[0, 19 - before] = (changed[0, 19 - before] + 1) % V
        difference = (read_in_pieces(model, changed, [20], memory)[:, -1] - last).abs().max()
        assert bool(difference > 0) == depends


@PLACEMENTS
def test_gradients_stop_at_the_memory(placement: str) -> None:
    """The embeddings of the first segment receive no gradient from the second, which the first one changes."""
    text = torch.arange(8).unsqueeze(0)
    model = model_of(norm_placement=placement, tied_embeddings=False)
    states = model(text).states
    states[:, 4:].sum().backward()
    gradient = model.embedding.tokens.weight.grad
    assert gradient is not None
    assert not gradient[:4].any()
    assert gradient[4:8].any(dim=1).all()
    alone = model(text[:, 4:]).states
    assert not torch.allclose(states[:, 4:], alone)


@PLACEMENTS
def test_projections_are_trained_on_the_memory(placement: str) -> None:
    """For one layer, whose memory consists of embeddings, its gradients equal those of the whole text."""
    gradients = []
    for sizes in ({"memory": 8}, {"memory": 0, "segment": 12}):
        model = model_of(layers=1, norm_placement=placement, **sizes)
        model(tokens(2, 12)).states.square().sum().backward()
        attention = model.layers[0].self_attention
        gradients.append({name: parameter.grad for name, parameter in attention.named_parameters()})
    torch.testing.assert_close(*gradients)


def test_documents_are_separate_also_in_memory() -> None:
    """Each document of a window has the states that it has alone, wherever its segments begin."""
    model = model_of(memory=12)
    text = tokens(2, 12)
    documents = torch.tensor([[0] * 3 + [1] * 6 + [2] * 3, [0] * 4 + [1] * 8])
    states = model(text, documents).states
    for row, bounds in enumerate(([0, 3, 9, 12], [0, 4, 12])):
        for start, end in pairwise(bounds):
            alone = model(text[row : row + 1, start:end]).states
            torch.testing.assert_close(states[row : row + 1, start:end], alone)


@torch.no_grad()
def test_hooks_see_the_attention_of_every_layer() -> None:
    """The weights that `inspection` computes from the inputs of a core are those with which it computes its output."""
    model = model_of()
    calls: list[tuple[Any, Tensor]] = []
    for core in model.attentions().decoder_self:
        core.register_forward_hook(lambda _, inputs, output: calls.append((inputs, output)))
    model(tokens(2, 12))
    assert len(calls) == 3
    for (query, key, value, mask, _, bias), output in calls:
        heads, weights = naive_attention(query, key, value, mask, bias)
        torch.testing.assert_close(heads, output)
        # Position 8 begins the third segment, whose memory is the second one.
        assert not weights[:, :, 8, :4].any()
        assert weights[:, :, 8, 4:9].all()


@pytest.mark.parametrize("score_biases", ["shared", "layer"])
def test_biases_of_the_scores(score_biases: str) -> None:
    model = model_of(score_biases=score_biases)
    biases = {id(layer.self_attention.biases) for layer in model.layers}
    assert len(biases) == (1 if score_biases == "shared" else 3)


@pytest.mark.parametrize(
    "changes",
    [{}, {"score_biases": "layer", "norm_placement": "pre"}, {"d_k": 5, "tied_embeddings": False, "norm": "rms"}],
    ids=str,
)
def test_listed_tensors_are_those_of_the_model(changes: dict[str, Any]) -> None:
    config = TransformerXLConfig(vocabulary=V, d_model=D, heads=3, d_ff=20, layers=2, **changes)
    actual = {name: tuple(tensor.shape) for name, tensor in weights_of(build_transformer_xl(config)).items()}
    assert {tensor.name: tensor.shape for tensor in config.tensors()} == actual


def test_settings() -> None:
    config = TransformerXLConfig(vocabulary=V, memory=0)
    assert (config.span, config.max_context) == (128, None)
    assert native.unsupported_reason(config) == "its architecture is transformer-xl"
    for preset in PRESETS.values():
        TransformerXLConfig(vocabulary=V, **preset)
    for changes, message in (
        ({"context": 100, "segment": 64}, "context must be a multiple of segment, but 100 is not a multiple of 64"),
        ({"memory": -1}, "memory must be at least 0, not -1"),
        ({"memory": 200_000}, "memory must be at most 131,072, not 200000"),
        ({"segment": 0}, "segment must be at least 1"),
        ({"heads": 5}, "heads must divide d_model, but 5 does not divide 384"),
        ({"dropout": 1.0}, "dropout must be in [0, 1), not 1.0"),
    ):
        with pytest.raises(SettingsError, match=re.escape(message)):
            TransformerXLConfig(vocabulary=V, **changes)
