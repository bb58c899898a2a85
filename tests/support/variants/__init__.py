"""A model of every kind at a size for tests, by name: what holds for all of them is tested on all of them."""

from dragoman.models.config import ModelConfig
from tests.support.variants import convolutional, recurrent, transformer, universal

VARIANTS: dict[str, ModelConfig] = {
    **{f"transformer, {name}": config for name, config in transformer.VARIANTS.items()},
    **{f"recurrent, {name}": config for name, config in recurrent.VARIANTS.items()},
    **{f"convolutional, {name}": config for name, config in convolutional.VARIANTS.items()},
    **{f"universal, {name}": config for name, config in universal.VARIANTS.items()},
}
