"""A model directory whose model translates single words, each to another one: it is trained within seconds."""

from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from dragoman.data.batching import collate
from dragoman.models.description import ModelDescription
from dragoman.models.storage import save_model, weights_of
from dragoman.models.transformer import build_transformer
from tests.support.small_translator import WORDS, model_config, tokenizer

STEPS = 70


def word_after(word: str, shift: int) -> str:
    """Return the translation of a word."""
    return WORDS[(WORDS.index(word) + shift) % len(WORDS)]


def write_word_model(directory: Path, shift: int) -> Path:
    """Write a model that translates each of `WORDS` to the one `shift` places after it; return its directory."""
    words = tokenizer()
    targets = [word_after(word, shift) for word in WORDS]
    batch = collate(words.encode_source(WORDS), words.encode_target(targets))
    torch.manual_seed(shift)
    model = build_transformer(model_config()).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        # [B, T, V]
        logits = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_mask)
        loss = cross_entropy(logits[batch.target_mask], batch.target_out[batch.target_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words.save(directory)
    description = ModelDescription(architecture="transformer", model=model_config(), trained_length=20)
    save_model(directory, description, weights_of(model))
    return directory
