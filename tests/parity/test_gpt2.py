"""The decoder-only Transformer against Hugging Face's GPT-2, imported and exported with the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

from dragoman.interop.huggingface import export_model, import_model
from dragoman.models.storage import load_language_model

V, D, HEADS, LAYERS, LENGTH = 50, 32, 4, 3, 24


def gpt2(cls: Any = GPT2LMHeadModel, **settings: Any) -> Any:
    """Return a model with random weights and biases; nothing is downloaded."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": V, "n_positions": LENGTH, "n_embd": D, "n_layer": LAYERS, "n_head": HEADS}
    config = GPT2Config(**sizes, bos_token_id=1, eos_token_id=1, **settings)
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return model


def tokens() -> Tensor:
    return torch.randint(V, (3, LENGTH), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def our_logits(directory: Path) -> Tensor:
    model = load_language_model(directory)
    # [B*T, D] -> [B, T, D] -> [B, T, V]
    return model.project(model(tokens()).rows.view(3, LENGTH, D))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation_function": "relu", "n_inner": 40, "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3},
        {"activation_function": "gelu"},
    ],
)
def test_the_same_logits_imported_and_exported(tmp_path: Path, settings: dict[str, Any]) -> None:
    theirs = gpt2(**settings)
    theirs.save_pretrained(tmp_path / "theirs")
    conversion = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert conversion.parameters == theirs.num_parameters()
    assert conversion.left_out == ()
    with torch.no_grad():
        expected = theirs(tokens()).logits
    torch.testing.assert_close(our_logits(tmp_path / "ours"), expected, rtol=1e-5, atol=1e-5)
    # The comparison is meaningful: logits differ from token to token.
    assert expected.std(dim=-1).min() > 0.1

    export_model(tmp_path / "ours", tmp_path / "exported")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "exported"))
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)
    again: Any = GPT2LMHeadModel.from_pretrained(tmp_path / "exported")
    again.eval()
    with torch.no_grad():
        assert again(tokens()).logits.equal(expected)


def test_step_by_step_with_both_caches(tmp_path: Path) -> None:
    theirs = gpt2()
    theirs.save_pretrained(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    ours = load_language_model(tmp_path / "ours")
    with torch.no_grad():
        prompt, token = tokens()[:, :5], tokens()[:, 5]
        _, state = ours.read(prompt, ours.start(3))
        cache = theirs(prompt, use_cache=True).past_key_values
        for _ in range(LENGTH - 5):
            logits, state = ours.step(token, state)
            output = theirs(token.unsqueeze(1), past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            torch.testing.assert_close(logits, output.logits[:, -1], rtol=1e-5, atol=1e-5)
            token = logits.argmax(dim=-1)


def test_a_model_without_output_projection_has_the_same_states(tmp_path: Path) -> None:
    theirs = gpt2(GPT2Model)
    theirs.save_pretrained(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    with torch.no_grad():
        expected = theirs(tokens()).last_hidden_state
        states = load_language_model(tmp_path / "ours")(tokens()).rows.view(3, LENGTH, D)
    torch.testing.assert_close(states, expected, rtol=1e-5, atol=1e-5)
