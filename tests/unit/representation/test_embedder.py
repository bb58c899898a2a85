"""Vectors of tokens, words and texts, from models of every kind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from dragoman import Embedder
from dragoman.cli import run
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.models.config.language import LanguageConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.config.recurrent_language import RecurrentLanguageConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import architecture_of, build_any, preset
from dragoman.models.storage import load_encoder, load_language_model, load_model, save_model, weights_of
from dragoman.representation.embedder import Embeddings
from dragoman.representation.units import Pool, Unit
from dragoman.text.subwords import BOS, EOS
from dragoman.text.vocabulary import Vocabulary, VocabularyConfig, train_vocabulary
from tests.support.small_translator import tokenizer

TEXTS = ["the lamp is on.", "please wait", "the lamp"]
VOCABULARY = train_vocabulary(["the lamp is on.\nplease wait\n"] * 9, VocabularyConfig(vocabulary_size=300))
SIZES: dict[str, Any] = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2}
CONFIGS: dict[str, Any] = {
    "masked": MaskedConfig(vocabulary=VOCABULARY.size, context=16, **SIZES),
    "language": LanguageConfig(vocabulary=VOCABULARY.size, context=16, **SIZES),
    "recurrent-language": RecurrentLanguageConfig(vocabulary=VOCABULARY.size, context=16, d_model=16),
    "transformer": preset("tiny", tokenizer().source_size, tokenizer().target_size, joint=True),
    "recurrent": preset("tiny", tokenizer().source_size, tokenizer().target_size, joint=True, architecture="recurrent"),
}
EACH_KIND = pytest.mark.parametrize("name", CONFIGS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model directory for each name in `CONFIGS`."""
    folder = tmp_path_factory.mktemp("models")
    for name, config in CONFIGS.items():
        torch.manual_seed(0)
        words: Any = VOCABULARY if hasattr(config, "vocabulary") else tokenizer()
        words.save(folder / name)
        description = ModelDescription(
            architecture=architecture_of(config),
            model=config,
            trained_length=16,
            vocabulary_hash=words.vocabulary_hash,
        )
        save_model(folder / name, description, weights_of(build_any(config)))
    return folder


def expected_states(models: Path, name: str, text: str) -> np.ndarray:
    """Return the last states of the tokens of a text, without special symbols, computed alone."""
    with torch.no_grad():
        if name in ("transformer", "recurrent"):
            row = torch.tensor([[*tokenizer().encode_source([text])[0], EOS]])
            return load_model(models / name).encode(row, torch.ones_like(row, dtype=torch.bool)).states[0, :-1].numpy()
        ids = VOCABULARY.encode([text])[0]
        if name == "masked":
            row = torch.tensor([[BOS, *ids, EOS]])
            states = load_encoder(models / name).encode(row, torch.ones_like(row, dtype=torch.bool))
            return states[0, 1:-1].numpy()
        return load_language_model(models / name)(torch.tensor([[BOS, *ids]])).states[0, 1:].numpy()


@EACH_KIND
def test_vectors_of_tokens_words_and_texts(models: Path, name: str) -> None:
    embedder = Embedder.load(models / name, batch_tokens=20)
    # Short enough to be read at once.
    texts = ["the lamp", "on", "wait"]
    tokens = embedder.embed(texts, of="tokens")
    expected = [expected_states(models, name, text) for text in texts]
    np.testing.assert_allclose(tokens.vectors, np.concatenate(expected), atol=1e-5)
    assert tokens.texts.tolist() == [i for i, rows in enumerate(expected) for _ in rows]
    means = embedder.embed(texts)
    np.testing.assert_allclose(means.vectors, [rows.mean(axis=0) for rows in expected], atol=1e-5)
    assert means.labels == tuple(texts)
    words = embedder.embed(texts, of="words")
    assert words.labels == ("the", "lamp", "on", "wait")
    np.testing.assert_allclose(words.vectors[2], means.vectors[1], atol=1e-6)
    firsts = embedder.embed(texts, of="words", pool="first")
    np.testing.assert_allclose(firsts.vectors[0], tokens.vectors[0], atol=1e-6)


@EACH_KIND
def test_layers(models: Path, name: str) -> None:
    embedder = Embedder.load(models / name)
    last = embedder.embed(TEXTS, of="tokens").vectors
    layers = 1 if "recurrent" in name else 3
    np.testing.assert_array_equal(embedder.embed(TEXTS, of="tokens", layer=layers - 1).vectors, last)
    with pytest.raises(SettingsError, match=rf"has the layers 0 to {layers - 1} .* not {layers}"):
        embedder.embed(TEXTS, layer=layers)
    if layers == 1:
        return
    # Without positions in the embedding, equal tokens have equal embeddings and different states.
    first = embedder.embed(TEXTS, of="tokens", layer=0)
    lamps = [i for i, label in enumerate(first.labels) if label == "▁lamp"]
    if name != "transformer" and len(lamps) == 2:
        np.testing.assert_array_equal(*first.vectors[lamps])
    assert not np.allclose(first.vectors, last)


@EACH_KIND
@pytest.mark.parametrize(("of", "pool"), [("texts", "mean"), ("tokens", "mean"), ("words", "mean"), ("words", "first")])
def test_all_layers_at_once(models: Path, name: str, of: Unit, pool: Pool) -> None:
    embedder = Embedder.load(models / name)
    texts = [*TEXTS, "", " ".join(["please wait"] * 30)]
    layers = embedder.embed_layers(texts, of=of, pool=pool)
    for number, together in enumerate(layers):
        alone = embedder.embed(texts, of=of, pool=pool, layer=number - len(layers))
        np.testing.assert_array_equal(together.vectors, alone.vectors)
        assert together.labels == alone.labels
        np.testing.assert_array_equal(together.texts, alone.texts)


def test_long_and_empty_texts(models: Path) -> None:
    embedder = Embedder.load(models / "masked")
    long = " ".join(["please wait"] * 30)
    tokens = embedder.embed([long, ""], of="tokens")
    assert len(tokens.labels) == len(VOCABULARY.encode([long])[0]) > 16
    assert set(tokens.texts.tolist()) == {0}
    assert np.isfinite(embedder.embed([long, ""]).vectors).all()
    # Each part is read with BOS and EOS.
    part = VOCABULARY.decode([VOCABULARY.encode([long])[0][:14]])[0]
    np.testing.assert_allclose(tokens.vectors[:14], expected_states(models, "masked", part), atol=1e-5)
    for texts in ([], [""]):
        with pytest.raises(CorpusError):
            embedder.embed(texts, of="words")


def test_the_first_token_of_a_text(models: Path) -> None:
    vectors = Embedder.load(models / "masked").embed(["wait"], pool="first").vectors
    row = torch.tensor([[BOS, *VOCABULARY.encode(["wait"])[0], EOS]])
    with torch.no_grad():
        states = load_encoder(models / "masked").encode(row, torch.ones_like(row, dtype=torch.bool))
    np.testing.assert_allclose(vectors[0], states[0, 0].numpy(), atol=1e-6)
    with pytest.raises(SettingsError, match="the same vector in all texts"):
        Embedder.load(models / "language").embed(["wait"], pool="first")


def test_another_vocabulary_is_rejected(models: Path, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    for file in (models / "masked").iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    Vocabulary.load(models / "masked")
    train_vocabulary([], VocabularyConfig(kind="byte")).save(directory)
    with pytest.raises(ModelError, match="tokenizer"):
        Embedder.load(directory)


def test_neighbours() -> None:
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [0, 0]], dtype=np.float32)
    embeddings = Embeddings(vectors, ("a", "b", "c", "d"), np.arange(4))
    nearest = embeddings.neighbours(2)
    assert [[index for index, _ in row] for row in nearest] == [[1, 2], [0, 2], [1, 0], [0, 1]]
    assert nearest[0][0][1] == pytest.approx(2 / np.hypot(2, 0.1))
    assert len(embeddings.neighbours(9)[0]) == 3


def test_the_verb_writes_and_prints(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"please wait\nthe lamp\n")
    model = str(models / "masked")
    expected = Embedder.load(model).embed(["on", "please wait", "the lamp"])
    for name in ("v.npy", "v.npz", "v.parquet"):
        assert run(["embed", model, "on", "--input", str(lines), "--out", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.endswith("3 vectors of 16 numbers\n")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected.vectors)
    with np.load(tmp_path / "v.npz") as arrays:
        np.testing.assert_array_equal(arrays["vector"], expected.vectors)
        assert arrays["label"].tolist() == ["on", "please wait", "the lamp"]
    table = pq.read_table(tmp_path / "v.parquet")
    np.testing.assert_array_equal(np.stack(table["vector"].to_pylist()), expected.vectors)
    assert table["text"].to_pylist() == [0, 1, 2]
    assert run(["embed", model, "on", "the lamp", "--of", "words", "--neighbours", "1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[::2] == ["on  (text 1)", "the  (text 2)", "lamp  (text 2)"]
    assert run(["embed", model, "on"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "on"
    for wrong in (["--out", "v.csv"], ["--neighbours", "0"], ["--layer", "7"], ["--input", "missing.txt"]):
        assert run(["embed", model, "on", *wrong]) != 0
    assert run(["embed", model]) == 2
    assert "give at least one text" in capsys.readouterr().err
