"""GPT-2 (Radford et al., 2019) as Hugging Face's transformers stores it: GPT2LMHeadModel and GPT2Model."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.interop.convention import (
    ACTIVATIONS,
    Activation,
    Convention,
    Correspondence,
    check_representable,
    exported_activation,
    read_supported,
)
from dragoman.models.config import ModelConfig
from dragoman.models.config.language import LanguageConfig
from dragoman.settings import from_mapping, to_mapping

_PREFIX = "transformer."
_OUTPUT = "lm_head.weight"
# Causal masks, which older files contain as tensors.
_MASK = re.compile(r"transformer\.h\.\d+\.attn\.(masked_)?bias")


@dataclass(frozen=True, kw_only=True)
class GPT2Settings:
    """The settings in config.json that describe the model, with the defaults of transformers' GPT2Config.

    Attributes:
        vocab_size: number of tokens in the vocabulary.
        n_positions: number of positions.
        n_embd: width of the model.
        n_layer: number of layers.
        n_head: number of heads.
        n_inner: width of the hidden layer of the feed-forward network; None for 4 n_embd.
        activation_function: activation of the feed-forward network.
        layer_norm_epsilon: number added to the variance in layer normalisation.
        resid_pdrop: dropout of sub-layer outputs.
        embd_pdrop: dropout of embeddings.
        attn_pdrop: dropout of attention weights.
        tie_word_embeddings: True if the embeddings and the output projection share a matrix.
    """

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: Activation = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    tie_word_embeddings: bool = True


class GPT2(Convention):
    """GPT2LMHeadModel, and GPT2Model, whose output projection is its embedding matrix.

    Linear maps are stored transposed, and queries, keys and values are one matrix.
    """

    model_type = "gpt2"
    architecture = "language"

    def read_settings(self, settings: Mapping[str, object], names: Collection[str], where: str) -> LanguageConfig:
        """See `Convention.read_settings`."""
        read_supported(settings, "scale_attn_weights", True, where)
        read_supported(settings, "scale_attn_by_inverse_layer_idx", False, where)
        read_supported(settings, "add_cross_attention", False, where)
        fields = GPT2Settings.__dataclass_fields__
        known = {name: value for name, value in settings.items() if name in fields}
        theirs = from_mapping(GPT2Settings, known, where, error=ModelError)
        ours = {
            "vocabulary": theirs.vocab_size,
            "layers": theirs.n_layer,
            "context": theirs.n_positions,
            "tied_embeddings": theirs.tie_word_embeddings,
            "d_model": theirs.n_embd,
            "heads": theirs.n_head,
            "d_ff": 4 * theirs.n_embd if theirs.n_inner is None else theirs.n_inner,
            "dropout": theirs.resid_pdrop,
            "attention_dropout": theirs.attn_pdrop,
            "norm_epsilon": theirs.layer_norm_epsilon,
            "activation": ACTIVATIONS[theirs.activation_function],
            "positions": "learned",
            "max_positions": theirs.n_positions,
            "attention_bias": True,
        }
        return from_mapping(LanguageConfig, ours, where, error=ModelError)

    def write_settings(self, config: ModelConfig) -> dict[str, object]:
        """See `Convention.write_settings`."""
        assert isinstance(config, LanguageConfig)
        check_representable(
            config,
            exported=(
                *("vocabulary", "layers", "tied_embeddings", "d_model", "heads", "d_ff", "norm_epsilon"),
                "max_positions",
                # Training only.
                *("context", "dropout", "attention_dropout", "activation_dropout", "max_distance"),
            ),
            required={
                "d_k": (None, config.d_model // config.heads),
                "activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
                "positions": ("learned",),
                "attention_bias": (True,),
            },
            models="GPT-2",
        )
        theirs = GPT2Settings(
            vocab_size=config.vocabulary,
            n_positions=config.max_positions,
            n_embd=config.d_model,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.d_ff,
            activation_function=exported_activation(config.activation),
            layer_norm_epsilon=config.norm_epsilon,
            resid_pdrop=config.dropout,
            embd_pdrop=config.dropout,
            attn_pdrop=config.attention_dropout,
            tie_word_embeddings=config.tied_embeddings,
        )
        return {"architectures": ["GPT2LMHeadModel"], **to_mapping(theirs)}

    def correspondences(self, config: ModelConfig) -> Iterator[Correspondence]:
        """See `Convention.correspondences`."""
        assert isinstance(config, LanguageConfig)
        yield Correspondence(f"{_PREFIX}wte.weight", ("embedding.tokens.weight",))
        yield Correspondence(f"{_PREFIX}wpe.weight", ("embedding.positions.embedding.weight",))
        for i in range(config.layers):
            theirs, ours = f"{_PREFIX}h.{i}", f"layers.{i}"
            attention = f"{ours}.self_attention"
            for kind in ("weight", "bias"):
                transposed = kind == "weight"
                projections = tuple(f"{attention}.{name}.{kind}" for name in ("query", "key", "value"))
                yield Correspondence(f"{theirs}.attn.c_attn.{kind}", projections, transposed)
                yield Correspondence(f"{theirs}.attn.c_proj.{kind}", (f"{attention}.output.{kind}",), transposed)
                for name, map_ in (("c_fc", "inner"), ("c_proj", "outer")):
                    part = f"{ours}.feed_forward.{map_}.{kind}"
                    yield Correspondence(f"{theirs}.mlp.{name}.{kind}", (part,), transposed)
                for name, residual in (("ln_1", "attention_residual"), ("ln_2", "feed_forward_residual")):
                    yield Correspondence(f"{theirs}.{name}.{kind}", (f"{ours}.{residual}.norm.{kind}",))
        for kind in ("weight", "bias"):
            yield Correspondence(f"{_PREFIX}ln_f.{kind}", (f"final_norm.{kind}",))
        if not config.tied_embeddings:
            yield Correspondence(_OUTPUT, ("output.weight",))

    def full_name(self, name: str) -> str:
        """See `Convention.full_name`; GPT2Model's names have no prefix."""
        return name if name == _OUTPUT or name.startswith(_PREFIX) else _PREFIX + name

    def ignored(self, name: str, config: ModelConfig) -> bool:
        """See `Convention.ignored`."""
        assert isinstance(config, LanguageConfig)
        return bool(_MASK.fullmatch(name)) or (name == _OUTPUT and config.tied_embeddings)

    def check_folder(self, folder: Path) -> None:
        """See `Convention.check_folder`: there are none."""
