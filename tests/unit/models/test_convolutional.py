"""The convolutional encoder-decoder: windows, sizes, initialisation, receptive fields and training."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from dragoman.attention import NO_MASK, AttentionMask
from dragoman.errors import UserError
from dragoman.layers.convolution import GatedConvolution, Windows
from dragoman.layers.multi_step_attention import MultiStepAttention
from dragoman.layers.positions import LearnedPositions
from dragoman.models.config.convolutional import ConvolutionalConfig
from dragoman.models.convolutional import Convolutional, ConvolutionalState, build_convolutional
from dragoman.models.registry import preset
from dragoman.packing import Layout, Packed, Padded, layout_of
from dragoman.training.loss import label_smoothed_loss
from tests.support.loss import loss_of_states


def build(**changes: Any) -> Convolutional:
    """Return a model with a few thousand weights."""
    settings: dict[str, Any] = {
        "source_vocabulary": 20,
        "target_vocabulary": 20,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": 16,
        "max_positions": 40,
        "dropout": 0.0,
    }
    torch.manual_seed(0)
    return build_convolutional(ConvolutionalConfig(**{**settings, **changes}))


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(4, 20, (rows, length), generator=torch.Generator().manual_seed(seed))


def masks(*lengths: int, width: int) -> Tensor:
    # [W] < [B, 1] -> [B, W]
    return torch.arange(width) < torch.tensor(lengths).unsqueeze(1)


def logits(model: Convolutional, source: Tensor, target: Tensor) -> Tensor:
    return model.decode(target, model.encode(source, torch.ones_like(source, dtype=torch.bool)))


# Windows


def test_windows_by_hand() -> None:
    """Two sentences, of three tokens and of one; windows contain neither other sentences nor padding (9)."""
    real, x = masks(3, 1, width=4), torch.tensor([[1.0, 2, 3, 9], [4, 9, 9, 9]]).unsqueeze(-1)
    centred = [[0, 1, 2], [1, 2, 3], [2, 3, 0], [0, 4, 0]]
    causal = [[0, 0, 1], [0, 1, 2], [1, 2, 3], [0, 0, 4]]
    for expected, is_causal in ((centred, False), (causal, True)):
        for layout in (Padded(real), Packed(real)):
            assert Windows(layout, 3, causal=is_causal).gather(layout.rows(x))[layout.real].tolist() == expected


@pytest.mark.parametrize(
    ("width", "causal"), [(1, False), (3, False), (5, False), (7, False), (1, True), (2, True), (3, True), (5, True)]
)
@pytest.mark.parametrize("kind", [Padded, Packed])
def test_a_product_of_windows_is_a_convolution(width: int, causal: bool, kind: type[Layout]) -> None:
    """Outputs and gradients equal those of F.conv1d on sentences with zeros as padding."""
    torch.manual_seed(0)
    real = masks(6, 2, 0, 1, width=6)
    x = torch.randn(4, 6, 5, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(8, width, 5, dtype=torch.float64, requires_grad=True)
    layout = kind(real)
    actual = (Windows(layout, width, causal=causal).gather(layout.rows(x)) @ kernel.flatten(1).t())[layout.real]

    zeroed = (x * real.unsqueeze(-1)).transpose(1, 2)
    before = width - 1 if causal else width // 2
    padded = F.pad(zeroed, (before, width - 1 - before))
    expected = F.conv1d(padded, kernel.transpose(1, 2)).transpose(1, 2)[real]
    torch.testing.assert_close(actual, expected)
    weighting = torch.randn_like(actual)
    for one, other in zip(
        torch.autograd.grad((actual * weighting).sum(), (x, kernel)),
        torch.autograd.grad((expected * weighting).sum(), (x, kernel)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_a_source_without_tokens_can_be_packed() -> None:
    """The results equal those of a padded batch."""
    model = build(kernel_width=5).double().train()
    source_mask, target_mask = masks(5, 0, 9, 17, width=17), masks(2, 8, 1, 7, width=8)
    source, target = tokens(4, 17), tokens(4, 8)
    results = []
    for layout in (Packed, Padded):
        model.zero_grad()
        decoded = model.decode_rows(target, layout(target_mask), model.encode_rows(source, layout(source_mask)))
        loss, _ = loss_of_states(decoded.states, model.output.weight, target, target_mask, 0.1)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        results.append((decoded.states[target_mask].detach(), loss.detach(), gradients))
    torch.testing.assert_close(results[0], results[1])


# Sizes and settings


def test_count_by_hand() -> None:
    block = 3 * 16 * 32 + 32
    attention = 16 * 16 + 16
    rest = 2 * block + 2 * (block + attention) + 2 * 40 * 16
    assert parameters(build()) == 20 * 16 + rest
    assert parameters(build(tied_embeddings="two-way")) == 2 * 20 * 16 + rest
    assert parameters(build(tied_embeddings="none", target_vocabulary=30)) == (20 + 30 + 30) * 16 + rest
    assert parameters(build(kernel_width=5)) == 20 * 16 + rest + 4 * 2 * 16 * 32
    assert parameters(build(encoder_layers=3)) == 20 * 16 + rest + block
    assert parameters(build(decoder_layers=3)) == 20 * 16 + rest + block + attention
    assert parameters(build(max_positions=41)) == 20 * 16 + rest + 2 * 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel_width": 4}, "kernel_width must be odd, so that a window has a centre, not 4"),
        ({"kernel_width": 0}, "kernel_width must be at least 1"),
        ({"encoder_layers": 0}, "encoder_layers must be at least 1, not 0"),
        ({"decoder_layers": -1}, "decoder_layers"),
        ({"max_positions": 0}, "max_positions"),
    ],
)
def test_invalid_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


@pytest.mark.parametrize("name", ["tiny", "small", "base"])
def test_presets(name: str) -> None:
    config = preset(name, 30, 40, joint=False, architecture="convolutional")
    assert isinstance(config, ConvolutionalConfig)
    assert (config.source_vocabulary, config.target_vocabulary, config.tied_embeddings) == (30, 40, "two-way")
    with torch.device("meta"):
        actual = parameters(build_convolutional(config))
    D, width = config.d_model, config.kernel_width
    block = width * D * 2 * D + 2 * D
    blocks = (config.encoder_layers + config.decoder_layers) * block + config.decoder_layers * (D * D + D)
    assert actual == (30 + 40 + 2 * config.max_positions) * D + blocks


# Initialisation (section 3.5)


@pytest.mark.parametrize("tied", ["three-way", "none"])
def test_initialisation_follows_the_paper(tied: str) -> None:
    changes = {"source_vocabulary": 500, "target_vocabulary": 500, "tied_embeddings": tied}
    model = build(d_model=128, encoder_layers=1, decoder_layers=1, dropout=0.2, max_positions=300, **changes)
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    assert len(tables) == (3 if tied == "three-way" else 4)
    for table in tables:
        assert table.weight.std().item() == pytest.approx(0.1, rel=0.02)
    block = model.decoder.blocks[0]
    for convolution in (block.convolution, model.encoder.blocks[0]):
        assert convolution.kernel.weight.std().item() == pytest.approx(math.sqrt(4 * 0.8 / (3 * 128)), rel=0.02)
    assert block.attention.query.weight.std().item() == pytest.approx(math.sqrt(1 / 128), rel=0.02)
    expected = 0.1 if tied == "three-way" else math.sqrt(0.8 / 128)
    assert model.output.weight.std().item() == pytest.approx(expected, rel=0.02)
    for name, parameter in model.named_parameters():
        assert name.endswith("weight") or parameter.eq(0).all(), name


def test_a_deep_encoder_preserves_the_variance() -> None:
    """Due to the initialisation and √½, the variance neither vanishes nor grows in 15 blocks with dropout."""
    model = build(d_model=128, encoder_layers=15, dropout=0.2, source_vocabulary=20).train()
    source, mask = tokens(16, 40), torch.ones(16, 40, dtype=torch.bool)
    e = model.source_embedding(source)
    z = model.encoder(e, layout_of(mask)).states
    assert 0.4 < z.var().item() / e.var().item() < 2.5


# Receptive fields


def receptive_field(output: Tensor, inputs: Tensor) -> list[int]:
    """Return the positions of `inputs` [1, S, D] on which `output` depends."""
    (gradient,) = torch.autograd.grad(output.sum(), inputs, retain_graph=True)
    return gradient[0].abs().sum(dim=-1).nonzero().squeeze(1).tolist()


@pytest.mark.parametrize(("width", "reach"), [(1, 0), (3, 2), (5, 4)])
def test_receptive_field_of_two_encoder_blocks(width: int, reach: int) -> None:
    """The window of a block has (k - 1)/2 tokens on each side; two blocks reach twice as far."""
    model = build(kernel_width=width).double()
    e = torch.randn(1, 12, 16, dtype=torch.float64, requires_grad=True)
    z = model.encoder(e, Packed(torch.ones(1, 12, dtype=torch.bool))).states
    for i in range(12):
        assert receptive_field(z[0, i], e) == list(range(max(0, i - reach), min(12, i + reach + 1)))


@pytest.mark.parametrize(("width", "reach"), [(1, 0), (3, 4), (5, 8)])
def test_receptive_field_of_two_decoder_blocks_has_no_later_positions(width: int, reach: int) -> None:
    model = build(kernel_width=width).double()
    memory = model.encode(tokens(1, 5), torch.ones(1, 5, dtype=torch.bool))
    g = torch.randn(1, 12, 16, dtype=torch.float64, requires_grad=True)
    h = model.decoder(g, Padded(torch.ones(1, 12, dtype=torch.bool)), memory)
    for i in range(12):
        assert receptive_field(h[0, i], g) == list(range(max(0, i - reach), i + 1))


@pytest.mark.parametrize("width", [1, 3, 5])
def test_the_state_does_not_grow(width: int) -> None:
    """It has k - 1 inputs for each block, and the underlying storage is not larger."""
    model = build(kernel_width=width, encoder_layers=1, decoder_layers=3).eval()

    def tensors(state: ConvolutionalState) -> list[Tensor]:
        return [*state.pasts, state.memory.states, state.memory.values, state.memory.mask]

    with torch.no_grad():
        state = model.start(model.encode(tokens(2, 5), masks(5, 3, width=5)))
        assert [past.shape for past in state.pasts] == [(2, width - 1, 16)] * 3
        shapes = [tensor.shape for tensor in tensors(state)]
        for token in tokens(30, 2):
            _, state = model.step(token, state)
            assert [tensor.shape for tensor in tensors(state)] == shapes
            for past in state.pasts:
                assert past.untyped_storage().nbytes() <= 2 * width * 16 * past.element_size()
    assert state.position == 30


def test_embeddings_are_the_sum_of_token_and_position() -> None:
    model = build()
    actual = model.source_embedding(torch.full((1, 5), 7), offset=2)[0, 3]
    positions = model.source_embedding.positions
    assert isinstance(positions, LearnedPositions)
    expected = model.source_embedding.tokens.weight[7] + positions.embedding.weight[5]
    torch.testing.assert_close(actual, expected)


def test_sequences_beyond_the_learned_positions() -> None:
    model = build(max_positions=6).eval()
    with pytest.raises(UserError, match="a sequence of 7 is longer than the 6 learned positions"):
        logits(model, tokens(1, 7), tokens(1, 5))
    with pytest.raises(UserError, match="a sequence of 7 is longer than the 6 learned positions"):
        logits(model, tokens(1, 5), tokens(1, 7))
    state = model.start(model.encode(tokens(1, 3), torch.ones(1, 3, dtype=torch.bool)))
    for token in tokens(6, 1):
        _, state = model.step(token, state)
    with pytest.raises(UserError, match="a sequence of 7 is longer than the 6 learned positions"):
        model.step(tokens(1, 1)[0], state)


def test_uniform_attention_is_scaled_by_the_root_of_the_number_of_tokens() -> None:
    """With d = 0 all weights are 1/m, and the output is √m times the mean of z + e (section 3.4)."""
    model = build()
    source, mask = tokens(2, 9), masks(9, 4, width=9)
    memory = model.encode(source, mask)
    zeros = torch.zeros(2, 1, 16)
    attention = model.decoder.blocks[0].attention
    with torch.no_grad():
        attention.query.weight.zero_()
        actual = attention(zeros, zeros, memory.states, memory.values, AttentionMask.padding(mask))
    both = memory.states + model.source_embedding(source)
    torch.testing.assert_close(actual[0, 0], 9**0.5 * both[0].mean(dim=0))
    torch.testing.assert_close(actual[1, 0], 4**0.5 * both[1, :4].mean(dim=0))


def test_attention_is_not_scaled() -> None:
    """Attention scores of 2 and 0 give weights of ratio e² to 1; if scaled by √16, the ratio would be √e to 1."""
    attention = MultiStepAttention(16)
    nn.init.zeros_(attention.query.weight)
    nn.init.zeros_(attention.query.bias)
    one = torch.zeros(1, 1, 16)
    one[..., 0] = 1
    key = torch.cat((2 * one, 0 * one), dim=1)
    actual = attention(0 * one, one, key, key, NO_MASK)
    assert actual[0, 0, 0].item() == pytest.approx(2 * math.exp(2) / (math.exp(2) + 1))


# Training


def test_where_dropout_is_applied() -> None:
    """To embeddings, the decoder's output, and the input of a convolution, but not to its residual (section 4.2)."""
    model = build(dropout=0.5).train()
    assert model.source_embedding(tokens(20, 20)).eq(0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert model.target_embedding(tokens(20, 20)).eq(0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    memory = model.encode(tokens(20, 5), torch.ones(20, 5, dtype=torch.bool))
    states = model.decode_states(tokens(20, 20), memory)
    assert states.eq(0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    block = GatedConvolution(16, 3, dropout=0.5).train()
    nn.init.zeros_(block.kernel.weight)
    nn.init.zeros_(block.kernel.bias)
    h = torch.randn(2, 4, 16)
    windows = Windows(Padded(torch.ones(2, 4, dtype=torch.bool)), 3, causal=False)
    torch.testing.assert_close(block(h, windows), h * math.sqrt(0.5))
    nn.init.ones_(block.kernel.weight)
    assert not torch.allclose(block(h, windows), block(h, windows))


@pytest.mark.parametrize("kernel_width", [1, 3])
@pytest.mark.parametrize("tied", ["three-way", "none"])
def test_gradients_equal_finite_differences(kernel_width: int, tied: str) -> None:
    """In float64, for every parameter, for a packed batch with a sentence of one token."""
    small = {"source_vocabulary": 6, "target_vocabulary": 6, "d_model": 3, "max_positions": 4}
    model = build(kernel_width=kernel_width, tied_embeddings=tied, **small).double()
    names = [name for name, _ in model.named_parameters()]
    source, target = torch.randint(6, (2, 4)), torch.randint(6, (2, 3))
    source_mask, target_mask = masks(4, 1, width=4), masks(2, 3, width=3)

    def mean_logit(*values: Tensor) -> Tensor:
        weights = dict(zip(names, values, strict=True))
        decoded = functional_call(model, weights, (source, source_mask, target, target_mask))
        output = weights.get("output.weight", weights.get("source_embedding.tokens.weight"))
        assert output is not None
        # Squared, so that no logit's gradient is lost in the sum.
        return (decoded.states[target_mask] @ output.t()).square().mean()

    values = [(parameter.detach() + 0.2 * torch.randn_like(parameter)) for parameter in model.parameters()]
    assert torch.autograd.gradcheck(mean_logit, [value.requires_grad_() for value in values], fast_mode=True)


@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
def test_a_tiny_model_learns_to(reverse: bool) -> None:
    """The model learns all sequences of four symbols out of four, in bf16, and writes them step by step."""
    begin, symbols = 4, torch.cartesian_prod(*[torch.arange(4)] * 4)
    outputs = symbols.flip(1) if reverse else symbols
    inputs = torch.cat((torch.full((256, 1), begin), outputs[:, :-1]), dim=1)
    mask = torch.ones_like(symbols, dtype=torch.bool)
    model = build(source_vocabulary=5, target_vocabulary=5, d_model=32, max_positions=4).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(80):
        rows = torch.randperm(256)[:64]
        with torch.autocast("cpu", torch.bfloat16):
            decoded = model(symbols[rows], mask[rows], inputs[rows], mask[rows])
            loss, count = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, outputs[rows], 0.0)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        state, token, written = model.start(model.encode(symbols, mask)), inputs[:, 0], []
        for _ in range(4):
            next_logits, state = model.step(token, state)
            token = next_logits.argmax(dim=-1)
            written.append(token)
    assert torch.stack(written, dim=1).equal(outputs)
