"""The settings of a stack of causal layers, which language models and decoder-only translation models share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import SettingsError
from dragoman.models.config.checks import check_sizes
from dragoman.models.config.layers import LayerConfig
from dragoman.models.shapes import TensorShape, linear, within

AttentionPattern = Literal["full", "local", "compressed"]


@dataclass(frozen=True, kw_only=True)
class CausalConfig(LayerConfig):
    """Settings of a stack of causal layers: those of `LayerConfig`, with the defaults of language models, and these.

    Attributes:
        layers: number of layers.
        attention_pattern: attention of each layer, repeated over the layers: "full"; "local" (to the tokens of its
            block); or "compressed" (to keys and values that a convolution makes of several tokens).
        block: number of tokens in a block of local attention.
        compression: number of tokens of which compressed attention makes one key and one value.
    """

    layers: int = 6
    d_model: int = 384
    heads: int = 6
    d_ff: int = 1536
    norm_placement: Literal["post", "pre"] = "pre"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] = "gelu"
    positions: Literal["sinusoidal", "learned", "one-hot", "rotary", "relative", "none"] = "rotary"
    attention_pattern: tuple[AttentionPattern, ...] = ("full",)
    block: int = 256
    compression: int = 3

    def __post_init__(self) -> None:
        check_sizes(self, ("layers", "block", "compression"))
        super().__post_init__()
        if self.norm == "batch":
            raise SettingsError(
                "norm = 'batch' is not available in a language model: its statistics would contain later tokens"
            )
        if not 1 <= len(self.attention_pattern) <= self.layers:
            raise SettingsError(
                f"attention_pattern must list at least one kind of attention and at most one for each of the "
                f"{self.layers} layers, not {len(self.attention_pattern)}"
            )
        if self.positions == "relative" and set(self.attention_pattern) != {"full"}:
            raise SettingsError(
                "attention_pattern needs positions other than 'relative', which compute a term for each pair of "
                "tokens: use 'rotary', 'sinusoidal', 'learned' or 'none'"
            )

    @property
    def max_context(self) -> int | None:
        """Largest number of tokens of a text, if the positions limit it."""
        return self.max_positions if self.positions in ("learned", "one-hot") else None

    def pattern_of(self, layer: int) -> AttentionPattern:
        """Return the attention of a layer."""
        return self.attention_pattern[layer % len(self.attention_pattern)]

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        pattern = "" if self.attention_pattern == ("full",) else f", {' and '.join(self.attention_pattern)} attention"
        return f"{self.layers} layers, d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}{pattern}"

    def stack_tensors(self) -> Iterator[TensorShape]:
        """Yield the tensors of the layers and of the norm after them."""
        for i in range(self.layers):
            yield from within(f"layers.{i}", self.layer_tensors(future=False))
            if self.pattern_of(i) == "compressed":
                yield from within(f"layers.{i}.self_attention", self._kernel_tensors())
        yield from within("final_norm", self.final_norm())

    def _kernel_tensors(self) -> Iterator[TensorShape]:
        for name, head_width in (("key_kernel", self.key_width), ("value_kernel", self.value_width)):
            width = self.heads * head_width
            yield from within(name, linear(width, self.compression * width, bias=False))
