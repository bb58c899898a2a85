"""The Transformer that reads images against Hugging Face's ViT, imported and exported with the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification, ViTModel

from dragoman.inspection.capture import capture_images
from dragoman.interop.huggingface import export_model, import_model
from dragoman.models.description import load_description
from dragoman.models.storage import load_image_classifier
from dragoman.models.vision import VisionTransformer

D, HEADS, LAYERS, SIZE, PATCH = 32, 4, 3, 12, 4
LABELS = {0: "cat", 1: "crane", 2: "dog, canine", 3: "漢字", 4: "\U0001f642"}


def vit(cls: Any, settings: dict[str, Any], **arguments: Any) -> Any:
    """Return a model with random weights and biases; nothing is downloaded."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        **{"image_size": SIZE, "patch_size": PATCH, "hidden_size": D, "num_hidden_layers": LAYERS},
        **{"num_attention_heads": HEADS, "intermediate_size": 40},
    }
    model = cls(ViTConfig(**{**sizes, **settings}), **arguments).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return model


def images(channels: int = 3) -> Tensor:
    return 2 * torch.rand(4, channels, SIZE, SIZE, generator=torch.Generator().manual_seed(1)) - 1


def imported(tmp_path: Path, theirs: Any) -> tuple[VisionTransformer, tuple[str, ...]]:
    """Return the imported model, and the names of the tensors that were left out."""
    theirs.save_pretrained(tmp_path / "theirs")
    conversion = import_model(tmp_path / "theirs", tmp_path / "ours")
    ours = load_image_classifier(tmp_path / "ours")
    assert isinstance(ours, VisionTransformer)
    left_out = sum(load_file(tmp_path / "theirs/model.safetensors")[name].numel() for name in conversion.left_out)
    assert conversion.parameters == theirs.num_parameters() - left_out
    return ours, conversion.left_out


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_same_states_of_every_layer_and_the_same_attention(tmp_path: Path) -> None:
    theirs = vit(ViTModel, {"attn_implementation": "eager"})
    ours, left_out = imported(tmp_path, theirs)
    assert left_out == ("pooler.dense.bias", "pooler.dense.weight")
    expected = theirs(images(), output_hidden_states=True, output_attentions=True)
    layers = ours.layers(images())
    # The last ones of theirs are before the final norm.
    for states, expected_states in zip(layers[:-1], expected.hidden_states[:-1], strict=True):
        close(states, expected_states)
    close(layers[-1], expected.last_hidden_state)
    close(ours.features(images()), expected.last_hidden_state[:, 0])
    captured = capture_images(ours, images())
    for row, attention in enumerate(captured):
        assert attention.encoder_self is not None
        # N x [B, H, T, T] -> [N, H, T, T]
        close(torch.from_numpy(attention.encoder_self.weights), torch.stack(expected.attentions)[:, row])
    export_model(tmp_path / "ours", tmp_path / "exported")
    again: Any = ViTModel.from_pretrained(tmp_path / "exported", add_pooling_layer=False)
    close(again(images()).last_hidden_state, expected.last_hidden_state)


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {"id2label": LABELS},
        {"num_labels": 3, "num_channels": 1, "hidden_act": "relu", "layer_norm_eps": 1e-3},
        {"num_labels": 2, "hidden_act": "gelu_pytorch_tanh", "patch_size": 2},
        {"num_labels": 1, "hidden_act": "gelu_new", "patch_size": 12},
    ],
    ids=str,
)
def test_the_same_logits_and_labels(tmp_path: Path, settings: dict[str, Any]) -> None:
    theirs = vit(ViTForImageClassification, settings)
    ours, left_out = imported(tmp_path, theirs)
    assert left_out == ()
    x = images(theirs.config.num_channels)
    expected = theirs(x).logits
    close(ours(x), expected)
    # The comparison is meaningful: logits differ from image to image.
    assert expected.std(dim=0).min() > 0.05
    model: Any = load_description(tmp_path / "ours").model
    assert dict(enumerate(model.labels)) == theirs.config.id2label
    export_model(tmp_path / "ours", tmp_path / "exported")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "exported"))
    assert before.keys() == after.keys()
    assert all(tensor.equal(after[name]) for name, tensor in before.items())
    again: Any = ViTForImageClassification.from_pretrained(tmp_path / "exported")
    close(again(x).logits, expected)
    assert again.config.id2label == theirs.config.id2label
    assert again.config.label2id == {label: number for number, label in theirs.config.id2label.items()}
