"""Import and export of models in the layout of Hugging Face's transformers: config.json and model.safetensors.

A folder from somebody else is untrusted. Only these two files are read, and the description of the pictures that a
model of images takes, with the checks of `models.weights`; formats that contain code (pickle) are refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import save

from dragoman.errors import ModelError, StorageError, quoted
from dragoman.files import atomic_directory, explain_full_disk, read_json_object
from dragoman.interop.bert import BERT
from dragoman.interop.convention import Convention
from dragoman.interop.gpt2 import GPT2
from dragoman.interop.vit import ViT
from dragoman.models.config import ImageClassifierConfig, ModelConfig, TextModelConfig
from dragoman.models.description import (
    CONFIG_FILE,
    LONGEST_TRAINED,
    ModelDescription,
    load_description,
    save_description,
)
from dragoman.models.weights import WEIGHTS_FILE, Array, open_tensors, open_weights, tensor_names, write_weights
from dragoman.printing import printable
from dragoman.version import __version__

# Each model_type of config.json that is supported. To add one, write a `Convention` and a line here.
CONVENTIONS: Mapping[str, Convention] = {convention.model_type: convention for convention in (GPT2(), BERT(), ViT())}

_OTHER_WEIGHTS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")
_PARTS = "model.safetensors.index.json"


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """What was imported or exported.

    Attributes:
        models: name of the models in the other library.
        config: settings of the model, in our form.
        parameters: number of parameters.
        left_out: names of the tensors of the other library that are not part of our model.
    """

    models: str
    config: ModelConfig
    parameters: int
    left_out: tuple[str, ...] = ()

    @property
    def reads_images(self) -> bool:
        """True for a model of images, False for one that takes token ids."""
        return isinstance(self.config, ImageClassifierConfig)

    def summary(self) -> str:
        """Return a short text with the kind and the size of the model."""
        return f"{self.models}, {self.config.shape()}, {self.parameters:,} parameters"


def import_model(folder: Path, out: Path) -> Conversion:
    """Write a model directory with the model of a folder in Hugging Face's layout.

    The tokenizer of the folder is not imported: the model takes and returns the same token ids as before.

    Args:
        folder: the folder, with config.json and model.safetensors.
        out: directory to create.

    Raises:
        ModelError: the folder is damaged, or contains a model that is not supported.
        FloatingPointError: weights are not finite, or too large.
        StorageError: `out` exists.

    Example:
        conversion = import_model(Path("downloads/gpt2"), Path("models/gpt2"))
        model = load_language_model(Path("models/gpt2"))
    """
    settings_file = folder / CONFIG_FILE
    settings = read_json_object(
        settings_file,
        missing=f"{folder} has no {CONFIG_FILE}: give a folder in the layout of Hugging Face's transformers",
        error=ModelError,
        advice="copy the folder again",
    )
    model_type = settings.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONVENTIONS:
        raise ModelError(
            f"{settings_file}: model_type {quoted(model_type)} is not supported (supported: {', '.join(CONVENTIONS)})"
        )
    if out.exists():
        raise StorageError(f"{out} exists already: use a new name")
    convention = CONVENTIONS[model_type]
    convention.check_folder(folder)
    weights_file = folder / WEIGHTS_FILE
    try:
        names = tensor_names(weights_file)
    except FileNotFoundError:
        raise ModelError(_missing_weights(folder)) from None
    stored = {convention.full_name(name): name for name in names}
    if len(stored) < len(names):
        raise ModelError(f"{weights_file} is damaged: it has a tensor twice, with and without its prefix")
    config = convention.read_settings(settings, stored.keys(), str(settings_file))
    left_out = {name for full, name in stored.items() if convention.ignored(full, config)}
    expected = (tensor._replace(name=stored.get(tensor.name, tensor.name)) for tensor in convention.tensors(config))
    tensors: dict[str, Array] = {}
    with open_tensors(weights_file, expected, left_out) as weights:
        for correspondence in convention.correspondences(config):
            tensors |= correspondence.split(weights.read(stored[correspondence.name]))
    conversion = Conversion(
        models=model_type,
        config=config,
        parameters=sum(values.size for values in tensors.values()),
        left_out=tuple(sorted(left_out)),
    )
    # A model of images reads no text.
    context = config.context if isinstance(config, TextModelConfig) else 1
    description = ModelDescription(
        architecture=convention.architecture, model=config, trained_length=min(context, LONGEST_TRAINED)
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with explain_full_disk(out.parent), atomic_directory(out) as temporary:
        (temporary / "README.md").write_text(_card(folder, conversion), encoding="utf-8")
        save_description(temporary, description)
        write_weights(temporary / WEIGHTS_FILE, tensors)
    return conversion


def export_model(directory: Path, out: Path) -> Conversion:
    """Write the model of a model directory in Hugging Face's layout.

    The tokenizer is not exported: the exported model takes and returns the same token ids. int8 matrices are exported
    as float32.

    Args:
        directory: the model directory.
        out: directory to create.

    Raises:
        ModelError: `directory` is not a model directory, or transformers has no such models; the message names the
            setting.
        StorageError: `out` exists.

    Example:
        export_model(Path("models/mine"), Path("exported/mine"))
        model = transformers.GPT2LMHeadModel.from_pretrained("exported/mine")
    """
    description = load_description(directory)
    convention = next((c for c in CONVENTIONS.values() if c.architecture == description.architecture), None)
    if convention is None:
        supported = ", ".join(convention.architecture for convention in CONVENTIONS.values())
        raise ModelError(
            f"{directory} has the architecture {description.architecture!r}, which cannot be exported in this format "
            f"(exported are: {supported})"
        )
    config = description.model
    settings = convention.write_settings(config)
    if out.exists():
        raise StorageError(f"{out} exists already: use a new name")
    with open_weights(directory, config) as weights:
        tensors = {
            correspondence.name: correspondence.join(weights.read)
            for correspondence in convention.correspondences(config)
        }
    settings = {"model_type": convention.model_type, "dtype": "float32", **settings}
    out.parent.mkdir(parents=True, exist_ok=True)
    with explain_full_disk(out.parent), atomic_directory(out) as temporary:
        (temporary / CONFIG_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        # transformers reads a file only if its metadata name the library whose order of dimensions it has.
        (temporary / WEIGHTS_FILE).write_bytes(save(tensors, metadata={"format": "pt"}))
    return Conversion(
        models=convention.model_type, config=config, parameters=sum(values.size for values in tensors.values())
    )


def _missing_weights(folder: Path) -> str:
    if (folder / _PARTS).exists():
        return f"{folder}: weights in several files ({_PARTS}) are not supported: save the model as one {WEIGHTS_FILE}"
    for name in _OTHER_WEIGHTS:
        if (folder / name).exists():
            return (
                f"{folder} has no {WEIGHTS_FILE}, only {name}, which is not read (such files can contain code): save "
                "the model with transformers' save_pretrained"
            )
    return f"{folder} has no {WEIGHTS_FILE}"


def _card(folder: Path, conversion: Conversion) -> str:
    """Return README.md of an imported model. Only the name of the folder is included, not its path."""
    left_out = "".join(f"| left out | {printable(name)} |\n" for name in conversion.left_out)
    use = (
        "The model takes images as numbers from -1 to 1, of the size above (from Python: `load_image_classifier` of "
        "dragoman.models.storage)."
        if conversion.reads_images
        else "The directory has no tokenizer: the model takes and returns the token ids of the tokenizer that it was "
        "trained with."
    )
    return f"""# An imported model: {printable(folder.resolve().name)}

Imported with Dragoman {__version__} (`dragoman import`) from the layout of Hugging Face's transformers.

| | |
|---|---|
| model type | {conversion.models} |
| shape | {conversion.config.shape()} |
| parameters | {conversion.parameters:,} |
{left_out}
{use}
"""
