"""The encoder trained by masking against Hugging Face's BERT, imported and exported with the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel

from dragoman.interop.huggingface import export_model, import_model
from dragoman.models.masked import MaskedModel
from dragoman.models.storage import load_encoder

V, D, HEADS, LAYERS, LENGTH = 50, 32, 4, 3, 24


def bert(cls: Any, **settings: Any) -> Any:
    """Return a model with random weights and biases; nothing is downloaded."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        **{"vocab_size": V, "hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS},
        **{"intermediate_size": 40, "max_position_embeddings": LENGTH, "type_vocab_size": 2},
    }
    config = BertConfig(**sizes, **settings)
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return model


def texts() -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, mask and segments of texts of different lengths."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(V, (4, LENGTH), generator=generator)
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [7], [1], [20]])
    segments = (torch.arange(LENGTH) >= torch.tensor([[10], [3], [1], [20]])).long()
    return tokens, mask, segments


def run(model: Any) -> Any:
    tokens, mask, segments = texts()
    with torch.no_grad():
        return model(input_ids=tokens, attention_mask=mask.long(), token_type_ids=segments, output_hidden_states=True)


def imported(tmp_path: Path, theirs: Any) -> MaskedModel:
    theirs.save_pretrained(tmp_path / "theirs")
    conversion = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert conversion.parameters == theirs.num_parameters()
    assert conversion.left_out == ()
    ours = load_encoder(tmp_path / "ours")
    assert isinstance(ours, MaskedModel)
    return ours


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def exported(tmp_path: Path, cls: Any) -> Any:
    """Export, check that the tensors are those that were imported, and return the model."""
    export_model(tmp_path / "ours", tmp_path / "exported")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "exported"))
    prefix = "" if before.keys() & after.keys() else "bert."
    assert {prefix + name for name in before} == set(after)
    assert all(tensor.equal(after[prefix + name]) for name, tensor in before.items())
    return cls.from_pretrained(tmp_path / "exported").eval()


def test_the_same_states_of_every_layer_and_the_same_pooled_vectors(tmp_path: Path) -> None:
    theirs = bert(BertModel)
    ours = imported(tmp_path, theirs)
    expected = run(theirs)
    tokens, mask, segments = texts()
    with torch.no_grad():
        for states, expected_states in zip(ours.layers(tokens, mask, segments), expected.hidden_states, strict=True):
            close(states[mask], expected_states[mask])
        close(ours.pool(ours.encode(tokens, mask, segments)[:, 0]), expected.pooler_output)
    again = run(exported(tmp_path, BertModel))
    assert again.last_hidden_state[mask].equal(expected.last_hidden_state[mask])


@pytest.mark.parametrize(
    "settings",
    [{}, {"hidden_act": "relu", "layer_norm_eps": 1e-3}, {"hidden_act": "gelu_new"}],
)
def test_the_same_predictions_of_masked_tokens(tmp_path: Path, settings: dict[str, Any]) -> None:
    theirs = bert(BertForMaskedLM, **settings)
    ours = imported(tmp_path, theirs)
    expected = run(theirs).logits
    tokens, mask, segments = texts()
    with torch.no_grad():
        close(ours.predict(ours.encode(tokens, mask, segments))[mask], expected[mask])
    # The comparison is meaningful: logits differ from token to token.
    assert expected.std(dim=-1).min() > 0.1
    assert run(exported(tmp_path, BertForMaskedLM)).logits[mask].equal(expected[mask])


def test_the_same_prediction_of_the_next_sentence(tmp_path: Path) -> None:
    theirs = bert(BertForPreTraining)
    ours = imported(tmp_path, theirs)
    expected = run(theirs)
    tokens, mask, segments = texts()
    with torch.no_grad():
        states = ours.encode(tokens, mask, segments)
        # Ours are logits of "does not follow" and "follows", theirs of "follows" and "does not follow".
        close(ours.follows(states[:, 0]).flip(-1), expected.seq_relationship_logits)
        close(ours.predict(states)[mask], expected.prediction_logits[mask])
    again = run(exported(tmp_path, BertForPreTraining))
    assert again.seq_relationship_logits.equal(expected.seq_relationship_logits)
