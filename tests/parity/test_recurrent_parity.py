"""Recurrent layers and models against torch's layers and cells, and against their equations in NumPy."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from dragoman.layers.recurrence import CellState, RecurrentLayer
from dragoman.models.config.recurrent import RecurrentConfig
from dragoman.models.recurrent import Recurrent, build_recurrent
from tests.support.variants.recurrent import VARIANTS
from tests.support.variants.sizes import V

Array = npt.NDArray[np.float64]
Cell = Literal["lstm", "gru"]
CELLS = pytest.mark.parametrize("cell", ["lstm", "gru"])
INPUTS, D = 5, 6


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(actual: Tensor, expected: Tensor | Array) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected), rtol=1e-9, atol=1e-11)


# One layer


def one_layer(cell: Cell) -> tuple[RecurrentLayer, CellState]:
    """Return a layer with random weights and biases, and an initial state."""
    layer = RecurrentLayer(cell, INPUTS, D).double()
    with torch.no_grad():
        for i, weight in enumerate(layer.parameters()):
            weight.copy_(random(*weight.shape, seed=i))
    return layer, tuple(random(3, D, seed=20 + i) for i in range(2 if cell == "lstm" else 1))


def unrolled(layer: RecurrentLayer, x: Tensor, state: CellState, prefix: int) -> Tensor:
    """Return the states computed position by position; the first `prefix` features are passed to `unroll`."""
    advance, states = layer.unroll(x[..., :prefix].transpose(0, 1)), []
    for t in range(x.shape[1]):
        state = advance(x[:, t, prefix:], state)
        states.append(state[0])
    return torch.stack(states, dim=1)


@CELLS
@pytest.mark.parametrize("prefix", [0, 2, INPUTS])
def test_unrolled_layers_equal_torchs_cells(cell: Cell, prefix: int) -> None:
    """States and gradients equal those of torch.nn.LSTMCell and GRUCell with the same weights."""
    layer, state = one_layer(cell)
    theirs = (nn.LSTMCell if cell == "lstm" else nn.GRUCell)(INPUTS, D, dtype=torch.float64)
    with torch.no_grad():
        for mine, yours in zip(layer.parameters(), theirs.parameters(), strict=True):
            yours.copy_(mine)
    x = random(3, 4, INPUTS, seed=9).requires_grad_()
    current, states = state if cell == "lstm" else state[0], []
    for t in range(4):
        current = theirs(x[:, t], current)
        states.append(current[0] if cell == "lstm" else current)
    expected = torch.stack(states, dim=1)
    actual = unrolled(layer, x, state, prefix)
    close(actual, expected)

    weights = random(3, 4, D, seed=10)
    gradients = torch.autograd.grad((actual * weights).sum(), (x, *layer.parameters()))
    expectations = torch.autograd.grad((expected * weights).sum(), (x, *theirs.parameters()))
    for gradient, expectation in zip(gradients, expectations, strict=True):
        close(gradient, expectation)


@CELLS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_positions_at_once_equal_one_at_a_time(cell: Cell, dtype: torch.dtype) -> None:
    """torch uses its own loop in float64, and oneDNN's LSTM in float32."""
    layer, state = one_layer(cell)
    layer, x = layer.to(dtype), random(3, 8, INPUTS, seed=9).to(dtype).requires_grad_()
    state = tuple(part.to(dtype).requires_grad_() for part in state)
    weights = random(3, 8, D, seed=10).to(dtype)
    actual = [layer(x, state), unrolled(layer, x, state, prefix=INPUTS)]
    torch.testing.assert_close(*actual)
    gradients = [torch.autograd.grad((h * weights).sum(), (x, *state, *layer.parameters())) for h in actual]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


# The encoder


@CELLS
@pytest.mark.parametrize("bidirectional", [False, True])
def test_encoders_equal_torchs_on_packed_sequences(cell: Cell, bidirectional: bool) -> None:
    """States, final states and gradients equal those of torch.nn.LSTM and GRU of three layers, without padding."""
    settings: dict[str, Any] = {"cell": cell, "bidirectional": bidirectional, "encoder_layers": 3}
    model = randomised(replace(VARIANTS["default"], d_model=D, **settings))
    theirs = (nn.LSTM if cell == "lstm" else nn.GRU)(
        D, D // (1 + bidirectional), 3, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )
    ours = [
        weight
        for layer in model.encoder.layers
        for direction in (layer.forwards, layer.backwards)
        if direction is not None
        for weight in direction.parameters()
    ]
    assert len(ours) == len(list(model.encoder.parameters()))
    with torch.no_grad():
        for mine, yours in zip(ours, theirs.parameters(), strict=True):
            yours.copy_(mine)

    x, lengths = random(4, 7, D).requires_grad_(), torch.tensor([3, 7, 1, 5])
    real = torch.arange(7) < lengths.unsqueeze(1)
    states, final = model.encoder(x, real)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    output, last = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    h = last[0] if cell == "lstm" else last
    # [layers*directions, B, D/directions] -> [B, layers, D]
    expected_final = h.unflatten(0, (3, -1)).permute(2, 0, 1, 3).flatten(2)
    close(states[real], expected[real])
    close(final, expected_final)

    weights, final_weights = random(4, 7, D, seed=1) * real.unsqueeze(2), random(4, 3, D, seed=2)
    actual = torch.autograd.grad((states * weights).sum() + (final * final_weights).sum(), (x, *ours))
    expected_gradients = torch.autograd.grad(
        (expected * weights).sum() + (expected_final * final_weights).sum(), (x, *theirs.parameters())
    )
    for one, other in zip(actual, expected_gradients, strict=True):
        close(one, other)


# The whole model, one sentence, from the papers' equations


def randomised(config: RecurrentConfig) -> Recurrent:
    """Return a model in float64, without dropout, with random noise added to all weights and biases."""
    torch.manual_seed(0)
    model = build_recurrent(replace(config, dropout=0.0)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class NumPyModel:
    """The model according to the equations of the papers, for one sentence at a time."""

    def __init__(self, model: Recurrent, config: RecurrentConfig) -> None:
        self.config = config
        self.weights = {name: weight.detach().numpy() for name, weight in model.state_dict().items()}

    def gates(self, layer: str, x: Array, h: Array, names: str) -> Iterator[tuple[Array, Array]]:
        """Yield W x + b and U h + b' for each gate."""
        parameters = [
            np.split(self.weights[f"{layer}.kernel.{name}_l0"], len(names))
            for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        ]
        for W, b, U, c in zip(*parameters, strict=True):
            yield W @ x + b, U @ h + c

    def cell(self, layer: str, x: Array, state: list[Array]) -> list[Array]:
        h = state[0]
        if self.config.cell == "lstm":
            i, f, g, o = (a + b for a, b in self.gates(layer, x, h, "ifgo"))
            c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
            return [sigmoid(o) * np.tanh(c), c]
        (xr, hr), (xz, hz), (xn, hn) = self.gates(layer, x, h, "rzn")
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        return [(1 - z) * np.tanh(xn + r * hn) + z * h]

    def states(self, layer: str, xs: list[Array]) -> list[Array]:
        width = self.config.d_model // (1 + self.config.bidirectional)
        state = [np.zeros(width)] * 2
        return [(state := self.cell(layer, x, state))[0] for x in xs]

    def encode(self, source: list[int]) -> tuple[list[Array], list[Array]]:
        xs = self.embed("source", source)
        final = []
        for i in range(self.config.encoder_layers):
            forward = self.states(f"encoder.layers.{i}.forwards", xs)
            backward = self.states(f"encoder.layers.{i}.backwards", xs[::-1]) if self.config.bidirectional else []
            final.append(np.concatenate([forward[-1], *backward[-1:]]))
            xs = [np.concatenate(both) for both in zip(forward, backward[::-1], strict=True)] if backward else forward
        return xs, final

    def embed(self, side: str, tokens: list[int]) -> list[Array]:
        table = self.weights[f"{side}_embedding.tokens.weight"]
        return [table[token] * self.config.d_model**0.5 for token in tokens]

    def score(self, u: Array, v: Array) -> Array:
        name, weights = "decoder.attention.score", self.weights
        match self.config.attention:
            case "dot":
                return u @ v
            case "general":
                return u @ weights[f"{name}.source.weight"] @ v
            case "additive":
                (w,) = weights[f"{name}.vector.weight"]
                return w @ np.tanh(weights[f"{name}.state.weight"] @ u + weights[f"{name}.source.weight"] @ v)
        raise AssertionError

    def attend(self, u: Array, vs: list[Array]) -> Array:
        e = np.array([self.score(u, v) for v in vs])
        p = np.exp(e) / np.exp(e).sum()
        c = sum(weight * v for weight, v in zip(p, vs, strict=True))
        return np.tanh(self.weights["decoder.attention.combine.weight"] @ np.concatenate([c, u]))

    def logits(self, source: list[int], target: list[int]) -> Array:
        vs, final = self.encode(source)
        layers = self.config.decoder_layers
        states = []
        for i in range(layers):
            # Counted from the top, each layer uses the corresponding layer of the encoder.
            h = final[max(0, i - layers + len(final))]
            initial = np.tanh(self.weights[f"decoder.bridge.{i}.weight"] @ h + self.weights[f"decoder.bridge.{i}.bias"])
            states.append(np.split(initial, 2 if self.config.cell == "lstm" else 1))
        attentional, logits = np.zeros(self.config.d_model), []
        for x in self.embed("target", target):
            u = np.concatenate([x, attentional]) if self.config.input_feeding else x
            for i in range(layers):
                states[i] = self.cell(f"decoder.layers.{i}", u, states[i])
                u = states[i][0]
            if self.config.attention != "none":
                attentional = u = self.attend(u, vs)
            logits.append(self.weights["output.weight"] @ u)
        return np.stack(logits)


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_models_follow_their_equations(variant: str) -> None:
    """A batch of sentences of different lengths, each compared with NumPy separately."""
    config = replace(VARIANTS[variant], d_model=D)
    model = randomised(config)
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(V, (3, length), generator=generator) for length in (6, 5))
    lengths = torch.tensor([4, 6, 1])
    actual = model.decode(target, model.encode(source, torch.arange(6) < lengths.unsqueeze(1)))
    assert actual.abs().max() > 0.5
    numpy_model = NumPyModel(model, config)
    for row, length in enumerate(lengths.tolist()):
        close(actual[row], numpy_model.logits(source[row, :length].tolist(), target[row].tolist()))
