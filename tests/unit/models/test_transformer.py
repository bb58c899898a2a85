"""The Transformer: sizes, presets, settings, tied embeddings, initialisation, and the effect of each setting."""

import dataclasses
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.layers.positions import OneHotPositions
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.registry import preset, read_model_config
from dragoman.models.transformer import Transformer, build_transformer
from dragoman.native import unsupported_reason
from dragoman.run.config import CorpusSize, model_config, read_settings, resolve
from dragoman.settings import apply_overrides, to_mapping
from tests.support.tiny import tiny

# Sennrich et al.'s 37,000 joint subwords of English and German, as in the paper's section 5.1.
SUBWORDS = 37_000


def build(**changes: Any) -> Transformer:
    """Return a model with a few thousand weights."""
    settings: dict[str, Any] = {
        "source_vocabulary": 20,
        "target_vocabulary": 20,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": 16,
        "heads": 2,
        "d_ff": 24,
    }
    torch.manual_seed(0)
    return build_transformer(TransformerConfig(**{**settings, **changes}))


def named(name: str, source: int = 8, target: int = 8, *, joint: bool = True) -> TransformerConfig:
    """Return a preset of this architecture."""
    config = preset(name, source, target, joint=joint)
    assert isinstance(config, TransformerConfig)
    return config


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(4, 20, (rows, length), generator=torch.Generator().manual_seed(seed))


def logits(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    return model.decode(target, model.encode(source, torch.ones_like(source, dtype=torch.bool)))


# Sizes


@pytest.mark.parametrize(("name", "paper", "exact"), [("base", 65e6, 63_045_632), ("big", 213e6, 214_171_648)])
def test_sizes_of_the_papers_models(name: str, paper: float, exact: int) -> None:
    """Table 3, up to 3 %, because the paper does not specify what it counts.

    No vocabulary gives both sizes: 65 M would need 40,800 subwords, and 213 M 35,900.
    """
    with torch.device("meta"):
        count = parameters(build_transformer(named(name, SUBWORDS, SUBWORDS)))
    assert count == exact
    assert count == pytest.approx(paper, rel=0.031)


@pytest.mark.parametrize(("d_k", "paper"), [(16, 58e6), (32, 60e6)])
def test_sizes_of_the_papers_models_with_narrow_keys(d_k: int, paper: float) -> None:
    """Table 3, rows B: the difference from base's 65 M; if values were narrow too, it would be twice as large."""
    with torch.device("meta"):
        count = parameters(build_transformer(dataclasses.replace(named("base", SUBWORDS, SUBWORDS), d_k=d_k)))
    assert 63_045_632 - count == pytest.approx(65e6 - paper, abs=0.5e6)


SIZES = [("tiny", 743_936), ("small", 7_568_384), ("modern", 48_349_184), ("fast", 12_565_248)]


@pytest.mark.parametrize(("name", "exact"), SIZES)
def test_sizes_of_the_other_presets(name: str, exact: int) -> None:
    """At 8,000 joint subwords."""
    with torch.device("meta"):
        assert parameters(build_transformer(named(name, 8000, 8000))) == exact


def test_count_by_hand() -> None:
    attention = 4 * 16 * 16
    feed_forward = 16 * 24 + 24 + 24 * 16 + 16
    norm = 2 * 16
    layers = 2 * (attention + feed_forward + 2 * norm) + 2 * (2 * attention + feed_forward + 3 * norm)
    assert parameters(build()) == 20 * 16 + layers
    assert parameters(build(tied_embeddings="two-way")) == 2 * 20 * 16 + layers
    assert parameters(build(tied_embeddings="none", target_vocabulary=30)) == (20 + 30 + 30) * 16 + layers
    assert parameters(build(norm_placement="pre")) == 20 * 16 + layers + 2 * norm
    assert parameters(build(attention_bias=True)) == 20 * 16 + layers + 6 * 4 * 16
    assert parameters(build(positions="learned", max_positions=9)) == 20 * 16 + layers + 2 * 9 * 16
    assert parameters(build(positions="one-hot", max_positions=9)) == 20 * 16 + layers + 2 * (9 * 16 + 16 * 16)
    for positions in ("rotary", "none"):
        assert parameters(build(positions=positions)) == 20 * 16 + layers
    # The heads of a layer share vectors [d_k]: for distances in both directions in the encoder, in one in the decoder.
    relative = build(positions="relative", max_distance=3)
    assert parameters(relative) == 20 * 16 + layers + 2 * (7 + 4) * 8
    # Queries and keys of both heads, in six attentions.
    assert parameters(build(d_k=5)) == 20 * 16 + layers - 6 * 2 * 16 * 2 * (8 - 5)
    # Values of both heads, and the columns of W^O that they are multiplied by.
    assert parameters(build(d_v=5)) == 20 * 16 + layers - 6 * 2 * 16 * 2 * (8 - 5)
    assert parameters(build(heads=3, d_k=5, d_v=7)) == 20 * 16 + layers + 6 * 3 * 16 * 2 * (5 + 7) - 6 * attention
    assert parameters(build(activation="swiglu")) == 20 * 16 + layers + 4 * (3 * 16 * 24 - feed_forward)
    assert parameters(build(norm="rms")) == 20 * 16 + layers - 10 * 16


# Presets and configuration


def test_presets() -> None:
    assert named("base") == TransformerConfig(source_vocabulary=8, target_vocabulary=8)
    big = named("big")
    assert (big.d_model, big.heads, big.d_ff, big.dropout) == (1024, 16, 4096, 0.3)
    assert (big.encoder_layers, big.decoder_layers) == (6, 6)
    modern = named("modern")
    assert (modern.norm_placement, modern.norm, modern.activation, modern.positions) == (
        "pre",
        "rms",
        "swiglu",
        "rotary",
    )
    fast, small = named("fast"), named("small")
    assert fast == dataclasses.replace(small, encoder_layers=12, decoder_layers=1, norm_placement="pre")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "3 does not divide 16"),
        ({"d_model": 15, "heads": 3}, "even"),
        ({"d_model": 18, "heads": 6, "positions": "rotary"}, "even d_k .*, not 3"),
        ({"d_k": 7, "positions": "rotary"}, "even d_k"),
        ({"d_k": 0}, "d_k must be at least 1, not 0"),
        ({"d_v": 0}, "d_v must be at least 1, not 0"),
        ({"heads": 3, "d_v": 4}, "3 does not divide 16: use another number of heads, or set both d_k and d_v"),
        ({"position_base": 0.5}, "position_base must be at least 1 and at most 1e\\+12, not 0.5"),
        ({"position_base": math.inf}, "position_base must be at least 1"),
        ({"position_base": 100.0, "positions": "learned"}, "needs sinusoidal or rotary positions, but .*'learned'"),
        ({"attention_scale": 0.0}, "attention_scale must be 'sqrt', 'none', or a number from 1e-06 to 1e\\+06, not 0"),
        ({"attention_scale": -1.0}, "attention_scale must be"),
        ({"attention_scale": math.nan}, "attention_scale must be"),
        ({"max_distance": 0}, "max_distance must be at least 1, not 0"),
        ({"random_positions": -1}, "random_positions must be at least 0, not -1"),
        ({"random_positions": 9, "positions": "learned"}, "needs sinusoidal positions, but positions = 'learned'"),
        ({"encoder_layers": 0}, "encoder_layers must be at least 1, not 0"),
        ({"decoder_layers": -1}, "decoder_layers"),
        ({"d_ff": 0}, "d_ff"),
        ({"max_positions": 0}, "max_positions"),
        ({"attention_dropout": -0.1}, "attention_dropout"),
        ({"activation_dropout": math.nan}, "activation_dropout"),
    ],
)
def test_invalid_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


@pytest.mark.parametrize(
    "override",
    [
        "heads=8",
        "d_k=16",
        "d_k=none",
        "d_v=7",
        "position_base=100",
        "attention_scale=none",
        "attention_scale=2",
        "encoder_layers=1",
        "d_model=32",
        "dropout=0",
        *(f"positions={name}" for name in ("sinusoidal", "learned", "one-hot", "rotary", "relative", "none")),
        "max_distance=4",
        "random_positions=100",
        *(f"norm_placement={name}" for name in ("post", "pre")),
        *(f"norm={name}" for name in ("layer", "batch", "rms")),
    ],
)
def test_settings_can_be_set_in_a_run_file(override: str) -> None:
    """The settings that lectures discuss; label smoothing is a setting of training."""
    table = apply_overrides({"model": {}}, [f"model.{override}"])["model"]
    settings = {"preset": "tiny", "training": {"steps": 1, "label_smoothing": 0.0}, "model": table}
    config = model_config(resolve(read_settings(settings), CorpusSize()), 20, 20)
    name, _, value = override.partition("=")
    actual = getattr(config, name)
    assert actual is None if override == "d_k=none" else str(actual) in (value, f"{value}.0")
    assert read_model_config("transformer", to_mapping(config), "config.json") == config
    assert isinstance(config, TransformerConfig)
    build_transformer(config)


def test_text_of_the_shape() -> None:
    config = tiny(8, 8, joint=True)
    assert config.shape() == "2 encoder and 2 decoder layers, d_model 64, 4 heads, d_ff 256"
    assert "4 heads, d_k 8, d_v 5, d_ff 256" in dataclasses.replace(config, d_k=8, d_v=5).shape()
    assert "4 heads, d_k 8, d_ff 256" in dataclasses.replace(config, d_k=8).shape()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"d_k": 16}, None),
        ({"positions": "learned"}, None),
        ({"positions": "rotary"}, None),
        ({"random_positions": 9}, None),
        ({"position_base": 100.0}, None),
        ({"attention_scale": "none"}, None),
        ({"d_k": 8}, "its d_k is 8, not d_model / heads"),
        ({"d_v": 8}, "its d_v is 8, not d_model / heads"),
        ({"positions": "relative"}, "it has relative positions"),
        ({"positions": "one-hot"}, "it has one-hot positions"),
        ({"positions": "none"}, None),
    ],
)
def test_why_the_native_engine_does_not_support_a_model(changes: dict[str, Any], reason: str | None) -> None:
    assert unsupported_reason(dataclasses.replace(tiny(8, 8, joint=True), **changes)) == reason


# Tying, embeddings, initialisation


def test_embeddings_are_scaled_and_have_positions() -> None:
    """The row of the token times √d_model, plus the position encoding (sections 3.4 and 3.5)."""
    model = build().eval()
    row = model.source_embedding.tokens.weight[7]
    position = [f(3 / 10_000 ** (i / 8)) for i in range(8) for f in (math.sin, math.cos)]
    embedded = model.source_embedding(torch.full((1, 5), 7))[0, 3]
    torch.testing.assert_close(embedded, 4 * row + torch.tensor(position))
    rotary = build(positions="rotary").eval()
    row = rotary.source_embedding.tokens.weight[7]
    torch.testing.assert_close(rotary.source_embedding(torch.full((1, 5), 7))[0, 3], 4 * row)


def test_random_positions_are_drawn_in_training_only() -> None:
    """Both sides of a batch start at the same random position; in evaluation, they start at position 0."""
    model = build(random_positions=3, dropout=0.0)
    source, target = tokens(2, 4), tokens(2, 5)
    masks = [torch.ones_like(side, dtype=torch.bool) for side in (source, target)]
    starts: list[int] = []
    for embedding in (model.source_embedding, model.target_embedding):
        embedding.register_forward_hook(lambda module, inputs, output: starts.extend(inputs[1:]))
    torch.manual_seed(0)
    for _ in range(60):
        model(source, masks[0], target, masks[1])
    assert starts[::2] == starts[1::2]
    assert min(starts[::2].count(position) for position in range(3)) > 10
    starts.clear()
    model.eval()
    states = model(source, masks[0], target, masks[1]).states
    assert starts == [0, 0]
    assert states.equal(model.decode_states(target, model.encode(source, masks[0]), masks[1]))


def test_without_random_positions_no_random_number_is_drawn() -> None:
    """The random numbers of a run do not change because the setting exists."""
    model = build(dropout=0.0)
    before = torch.get_rng_state()
    source, real = tokens(2, 4), torch.ones(2, 4, dtype=torch.bool)
    model(source, real, source, real)
    assert torch.get_rng_state().equal(before)


def test_without_positions_the_encoder_ignores_the_order() -> None:
    """This is why models need positions: attention alone does not depend on the order of the words."""
    source, target = tokens(1, 7), tokens(1, 5)
    for positions in ("none", "sinusoidal", "learned", "one-hot", "rotary", "relative"):
        model = build(positions=positions, max_positions=7).eval()
        same = torch.allclose(logits(model, source.flip(1), target), logits(model, source, target), atol=1e-5)
        assert same == (positions == "none"), positions


@pytest.mark.parametrize("tied", ["three-way", "two-way", "none"])
def test_initialisation_follows_the_reference_implementation(tied: Any) -> None:
    torch.manual_seed(0)
    model = build_transformer(
        TransformerConfig(
            source_vocabulary=500,
            target_vocabulary=500,
            encoder_layers=1,
            decoder_layers=1,
            d_model=128,
            heads=4,
            d_ff=512,
            tied_embeddings=tied,
            attention_bias=True,
        )
    )
    for weight in (model.source_embedding.tokens.weight, model.target_embedding.tokens.weight, model.output.weight):
        assert weight.std().item() == pytest.approx(128**-0.5, rel=0.02)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all(), name
        elif "norm" in name:
            assert parameter.eq(1).all(), name
        elif "attention" in name or "feed_forward" in name:
            bound = math.sqrt(6 / sum(parameter.shape))  # Glorot and Bengio (2010)
            assert parameter.abs().max().item() == pytest.approx(bound, rel=0.01), name
            assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03), name


def test_one_hot_positions_start_as_learned_positions() -> None:
    model = build(positions="one-hot", max_positions=9, tied_embeddings="none").eval()
    for embedding in (model.source_embedding, model.target_embedding):
        assert isinstance(embedding.positions, OneHotPositions)
        W_I, W_P = embedding.positions.matrix.split((16, 9), dim=1)
        assert W_I.equal(torch.eye(16))
        assert W_P.std().item() == pytest.approx(16**-0.5, rel=0.2)
        x = 4 * embedding.tokens(tokens(2, 6))
        torch.testing.assert_close(embedding(tokens(2, 6)), x + W_P.t()[:6])


# Behaviour


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_is_active_in_training_only_and_depends_on_the_seed(name: str) -> None:
    without_dropout, model = build(dropout=0.0), build(**{"dropout": 0.0, name: 0.5})
    source, target = tokens(2, 6), tokens(2, 5)
    expected = logits(without_dropout, source, target)
    torch.manual_seed(1)
    first = logits(model, source, target)
    assert not torch.allclose(first, expected, atol=1e-3)
    torch.manual_seed(1)
    assert logits(model, source, target).equal(first)
    torch.testing.assert_close(logits(model.eval(), source, target), expected)


def test_embeddings_have_dropout_in_training_only() -> None:
    """On the sum of embedding and position encoding (section 5.4), for source and target."""
    model = build(dropout=0.5)
    for embedding in (model.source_embedding, model.target_embedding):
        embedding.train()
        dropped = embedding(tokens(20, 20))
        embedding.eval()
        expected = embedding(tokens(20, 20))
        kept = dropped != 0
        assert kept.float().mean().item() == pytest.approx(0.5, abs=0.05)
        torch.testing.assert_close(dropped[kept], 2 * expected[kept])


SETTINGS: list[dict[str, Any]] = [
    {},
    {"norm_placement": "pre"},
    {"norm": "rms"},
    {"norm": "batch"},
    {"activation": "gelu"},
    {"activation": "geglu"},
    {"activation": "swiglu"},
    {"positions": "learned"},
    {"positions": "one-hot"},
    {"positions": "rotary"},
    {"positions": "relative", "max_distance": 3},
    {"positions": "none"},
    {"attention_bias": True},
    {"d_k": 3},
    {"d_k": 12},
    {"d_v": 3},
    {"position_base": 50.0},
    {"position_base": 50.0, "positions": "rotary"},
    {"attention_scale": "none"},
    {"attention_scale": 0.1},
    {"attention_scale": 0.1, "positions": "relative", "max_distance": 3},
]


def test_every_setting_changes_the_logits() -> None:
    """No two settings have the same logits for the same seed."""
    results: list[Tensor] = []
    for changes in SETTINGS:
        model = build(dropout=0.0, **changes)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.constant_(parameter, 0.1)
        results.append(logits(model, tokens(2, 6), tokens(2, 5)))
    for i, one in enumerate(results):
        for other in results[:i]:
            assert not torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
@pytest.mark.parametrize("tied", ["three-way", "none"])
def test_every_weight_has_a_gradient(changes: dict[str, Any], tied: str) -> None:
    model = build(tied_embeddings=tied, max_positions=7, **changes)
    source, target = tokens(8, 7), tokens(8, 7)
    F.cross_entropy(logits(model, source, target).transpose(1, 2), tokens(8, 7, seed=1)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):  # the softmax does not depend on it
            assert parameter.grad.abs().max() > 1e-8, name


@pytest.mark.parametrize("positions", ["learned", "one-hot"])
def test_a_target_beyond_the_learned_positions(positions: str) -> None:
    model = build(positions=positions, max_positions=6).eval()
    with pytest.raises(ValueError, match="a sequence of 7 is longer than the 6 learned positions"):
        logits(model, tokens(1, 7), tokens(1, 5))
    state = model.start(model.encode(tokens(1, 3), torch.ones(1, 3, dtype=torch.bool)))
    for token in tokens(6, 1):
        _, state = model.step(token, state)
    with pytest.raises(ValueError, match="a sequence of 7 is longer than the 6 learned positions"):
        model.step(tokens(1, 1)[0], state)


def test_batch_norm_in_training_ignores_target_padding() -> None:
    """The target mask is passed to the norms: the values at padding have no effect."""
    results = []
    for pad in (0, 9):
        model = build(norm="batch", dropout=0.0)
        source, target = tokens(2, 5), tokens(2, 4)
        source[1, 3:] = pad
        target[1, 2:] = pad
        source_mask, target_mask = torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)
        source_mask[1, 3:] = False
        target_mask[1, 2:] = False
        output = model.decode(target, model.encode(source, source_mask), target_mask)
        results.append(output[target_mask])
    torch.testing.assert_close(*results)
