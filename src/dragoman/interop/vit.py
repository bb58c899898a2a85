"""ViT (Dosovitskiy et al., 2020) as Hugging Face's transformers stores it: ViTModel and ViTForImageClassification."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ModelError, quoted
from dragoman.files import read_json_object
from dragoman.interop.convention import (
    ACTIVATIONS,
    Activation,
    Convention,
    Correspondence,
    both,
    check_representable,
    exported_activation,
    read_supported,
)
from dragoman.models.config import ModelConfig
from dragoman.models.config.checks import MOST_LABELS
from dragoman.models.config.vision import VisionConfig
from dragoman.settings import from_mapping, to_mapping

_PREFIX = "vit."
_CLASSIFIER = "classifier."
# A map of the state of the class token that ViTForImageClassification does not have, and the token in place of masked
# patches, which only training uses.
_IGNORED = (f"{_PREFIX}pooler.dense.weight", f"{_PREFIX}pooler.dense.bias", f"{_PREFIX}embeddings.mask_token")
# Our names of the parts of a layer -> the names of ViT.
_LAYER = {
    **{f"self_attention.{name}": f"attention.attention.{name}" for name in ("query", "key", "value")},
    "self_attention.output": "attention.output.dense",
    "attention_residual.norm": "layernorm_before",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_residual.norm": "layernorm_after",
}
# Describes how pictures become numbers.
_PREPROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True, kw_only=True)
class ViTSettings:
    """The settings in config.json that describe the model, with the defaults of transformers' ViTConfig.

    Attributes:
        image_size: height and width of the images.
        patch_size: height and width of a patch.
        num_channels: number of numbers for each pixel.
        hidden_size: width of the model.
        num_hidden_layers: number of layers.
        num_attention_heads: number of heads.
        intermediate_size: width of the hidden layer of the feed-forward network.
        hidden_act: activation of the feed-forward network.
        hidden_dropout_prob: dropout of embeddings and of sub-layer outputs.
        attention_probs_dropout_prob: dropout of attention weights.
        layer_norm_eps: number added to the variance in layer normalisation.
    """

    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: Activation = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    layer_norm_eps: float = 1e-12


class ViT(Convention):
    """ViTForImageClassification, and ViTModel, which has no labels and whose pooler is left out.

    Labels that occur more than once in id2label, as two of ImageNet's do, get the number of their class: "crane (517)".
    """

    model_type = "vit"
    architecture = "vision"

    def read_settings(self, settings: Mapping[str, object], names: Collection[str], where: str) -> VisionConfig:
        """See `Convention.read_settings`; the names show whether the model has a linear map to labels."""
        read_supported(settings, "qkv_bias", True, where)
        if settings.get("problem_type") is not None:
            # One label for each image; not several, and not a number.
            read_supported(settings, "problem_type", "single_label_classification", where)
        fields = ViTSettings.__dataclass_fields__
        known = {name: value for name, value in settings.items() if name in fields}
        theirs = from_mapping(ViTSettings, known, where, error=ModelError)
        classifies = any(name.startswith(_CLASSIFIER) for name in names)
        ours = {
            "image_size": theirs.image_size,
            "labels": _labels(settings, where) if classifies else (),
            "patch": theirs.patch_size,
            "channels": theirs.num_channels,
            "layers": theirs.num_hidden_layers,
            "d_model": theirs.hidden_size,
            "heads": theirs.num_attention_heads,
            "d_ff": theirs.intermediate_size,
            "dropout": theirs.hidden_dropout_prob,
            "attention_dropout": theirs.attention_probs_dropout_prob,
            "norm_epsilon": theirs.layer_norm_eps,
            "activation": ACTIVATIONS[theirs.hidden_act],
        }
        return from_mapping(VisionConfig, ours, where, error=ModelError)

    def write_settings(self, config: ModelConfig) -> dict[str, object]:
        """See `Convention.write_settings`."""
        assert isinstance(config, VisionConfig)
        check_representable(
            config,
            exported=(
                *("image_size", "labels", "patch", "channels", "layers", "d_model", "heads", "d_ff", "norm_epsilon"),
                # Follows from the sizes.
                "max_positions",
                # Training only, and relative positions only.
                *("dropout", "attention_dropout", "activation_dropout", "max_distance"),
            ),
            required={
                "d_k": (None, config.d_model // config.heads),
                "d_v": (None, config.d_model // config.heads),
                "activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
            },
            models="ViT",
        )
        theirs = ViTSettings(
            image_size=config.image_size,
            patch_size=config.patch,
            num_channels=config.channels,
            hidden_size=config.d_model,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.d_ff,
            hidden_act=exported_activation(config.activation),
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.attention_dropout,
            layer_norm_eps=config.norm_epsilon,
        )
        written = {"qkv_bias": True, **to_mapping(theirs)}
        if not config.labels:
            return {"architectures": ["ViTModel"], **written}
        return {
            "architectures": ["ViTForImageClassification"],
            **written,
            "id2label": {str(number): label for number, label in enumerate(config.labels)},
            "label2id": {label: number for number, label in enumerate(config.labels)},
        }

    def correspondences(self, config: ModelConfig) -> Iterator[Correspondence]:
        """See `Convention.correspondences`."""
        assert isinstance(config, VisionConfig)
        D, C, P, T = config.d_model, config.channels, config.patch, config.max_positions
        embeddings = f"{_PREFIX}embeddings"
        yield _reshaped(f"{embeddings}.cls_token", "embedding.class_token", (D,), (1, 1, D))
        yield _reshaped(f"{embeddings}.position_embeddings", "embedding.positions.embedding.weight", (T, D), (1, T, D))
        theirs, ours = f"{embeddings}.patch_embeddings.projection", "embedding.patches.projection"
        yield _reshaped(f"{theirs}.weight", f"{ours}.weight", (D, C * P * P), (D, C, P, P))
        yield Correspondence(f"{theirs}.bias", (f"{ours}.bias",))
        for i in range(config.layers):
            for our_part, their_part in _LAYER.items():
                yield from both(f"{_PREFIX}encoder.layer.{i}.{their_part}", f"encoder.layers.{i}.{our_part}")
        yield from both(f"{_PREFIX}layernorm", "encoder.final_norm")
        if config.labels:
            yield from both("classifier", "output")

    def full_name(self, name: str) -> str:
        """See `Convention.full_name`; ViTModel's names have no prefix."""
        return name if name.startswith((_PREFIX, _CLASSIFIER)) else _PREFIX + name

    def ignored(self, name: str, config: ModelConfig) -> bool:
        """See `Convention.ignored`."""
        return name in _IGNORED

    def check_folder(self, folder: Path) -> None:
        """See `Convention.check_folder`: images here are numbers from -1 to 1, mean 0.5 and deviation 0.5 there."""
        path = folder / _PREPROCESSOR
        if not path.exists():
            return
        advice = "copy the folder again"
        settings = read_json_object(path, missing=f"{path} is missing: {advice}", error=ModelError, advice=advice)
        read_supported(settings, "do_rescale", True, str(path))
        read_supported(settings, "do_normalize", True, str(path))
        factor = settings.get("rescale_factor", 1 / 255)
        if not isinstance(factor, float) or abs(255 * factor - 1) > 1e-3:
            raise ModelError(f"{path}: rescale_factor is {quoted(factor)}, only 1/255 is supported")
        for name in ("image_mean", "image_std"):
            values = settings.get(name, 0.5)
            if any(value != 0.5 for value in (values if isinstance(values, list) else [values])):
                raise ModelError(
                    f"{path}: {name} is {quoted(values)}, only 0.5 is supported: a model here takes images as numbers "
                    "from -1 to 1"
                )


def _labels(settings: Mapping[str, object], where: str) -> tuple[str, ...]:
    """Return the labels in the order of their numbers, each once."""
    # transformers leaves out its default, which is two labels.
    names = settings.get("id2label")
    if names is None:
        number = settings.get("num_labels", 2)
        if type(number) is not int or not 1 <= number <= MOST_LABELS:
            raise ModelError(f"{where}: num_labels must be from 1 to {MOST_LABELS:,}, not {quoted(number)}")
        names = {str(i): f"LABEL_{i}" for i in range(number)}
    if not isinstance(names, Mapping) or names.keys() != {str(i) for i in range(len(names))}:
        raise ModelError(f'{where}: id2label must be a table with the keys "0", "1", "2", ..., not {quoted(names)}')
    labels = [names[str(i)] for i in range(len(names))]
    for label in labels:
        if not isinstance(label, str):
            raise ModelError(f"{where}: id2label has the label {quoted(label)}, which is not text")
    counts = Counter(labels)
    return tuple(label if counts[label] == 1 else f"{label} ({i})" for i, label in enumerate(labels))


def _reshaped(theirs: str, ours: str, our_shape: tuple[int, ...], their_shape: tuple[int, ...]) -> Correspondence:
    return Correspondence(theirs, (ours,), dimensions=(our_shape, their_shape))
