"""Attention, predictions and heads of models that read one text: language models and encoders."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.cli import run
from dragoman.data.texts import Part
from dragoman.errors import CorpusError, ModelError
from dragoman.inspection.capture import capture_texts
from dragoman.inspection.recording import TextModel
from dragoman.inspection.text_predictions import predictions_of_corpus
from dragoman.models.masked import MaskedModel
from dragoman.models.registry import build_encoder, text_preset
from dragoman.representation.text_analyzer import TextAnalyzer
from dragoman.text.subwords import BOS, EOS, MASK
from tests.support.small_language import analyzer_of, random_model, vocabulary, write_language_model

TEXT = "O Romeo, Romeo"
MODELS: dict[str, dict[str, Any]] = {
    "full": {},
    "local": {"attention_pattern": ("local",), "block": 4},
    "compressed": {"attention_pattern": ("full", "compressed"), "compression": 3, "layers": 2},
    "relative": {"positions": "relative"},
    "recurrent": {"architecture": "recurrent-language"},
    "segments": {"architecture": "transformer-xl", "segment": 4, "memory": 4},
}
EACH_MODEL = pytest.mark.parametrize("name", [*sorted(MODELS.keys() - {"recurrent"}), "masked"])


@cache
def model(name: str) -> TextModel:
    if name != "masked":
        return random_model(**MODELS[name])
    torch.manual_seed(0)
    encoder = build_encoder(text_preset("tiny", vocabulary().size, architecture="masked"))
    with torch.no_grad():
        for parameter in encoder.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)
    return encoder.eval()


def analyzer(name: str, context: int = 16) -> TextAnalyzer:
    return analyzer_of(model(name), vocabulary(), context)


def row_of(name: str, text: str = TEXT) -> list[int]:
    [ids] = vocabulary().encode([text])
    return [BOS, *ids, EOS] if name == "masked" else [BOS, *ids]


@EACH_MODEL
def test_weights_of_a_text_alone_and_in_a_batch(name: str) -> None:
    rows = [row_of(name), row_of(name, "Jul")]
    for row, captured in zip(rows, capture_texts(model(name), rows), strict=True):
        arrays, other = captured.decoder_self, captured.encoder_self
        if name == "masked":
            arrays, other = other, arrays
        assert arrays is not None
        assert other is captured.encoder_decoder is None
        assert arrays.weights.shape[2:] == (len(row), len(row))
        # The first queries of compressed attention attend to nothing.
        first = 2 if name == "compressed" else 0
        np.testing.assert_allclose(arrays.weights.sum(-1)[:, :, first:], 1.0, atol=1e-5)
        assert (name == "masked") == (np.triu(arrays.weights, 1) > 0).any()
        [alone] = capture_texts(model(name), [row])
        alone_arrays = alone.encoder_self if name == "masked" else alone.decoder_self
        assert alone_arrays is not None
        np.testing.assert_allclose(arrays.weights, alone_arrays.weights, atol=1e-5)


@pytest.mark.parametrize("name", ["full", "local", "relative", "segments", "masked"])
def test_the_weights_are_the_softmax_of_the_details(name: str) -> None:
    attention = analyzer(name, context=20).attention(TEXT, candidates=0)
    [(kind, arrays)] = attention.kinds()
    details = arrays.details
    assert details is not None
    T = arrays.weights.shape[2]
    assert len(attention.queries(kind)) == len(attention.keys(kind)) == T
    scores = details.scale * details.query @ details.key.swapaxes(-1, -2)
    if details.bias is not None:
        scores = scores + details.bias
    position = np.arange(T)
    allowed = np.ones((T, T), dtype=bool) if name == "masked" else np.tri(T, dtype=bool)
    if name == "local":
        allowed &= position[:, None] // 4 == position // 4
    if name == "segments":
        allowed &= position >= position[:, None] // 4 * 4 - 4
    powers = np.where(allowed, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    np.testing.assert_allclose(arrays.weights, powers / powers.sum(-1, keepdims=True), atol=1e-5)


def test_a_text_that_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformer-XL computes long texts in several calls of each layer."""
    [whole] = capture_texts(model("segments"), [row_of("segments")])
    monkeypatch.setattr("dragoman.models.transformer_xl.AT_ONCE", 4)
    [pieces] = capture_texts(model("segments"), [row_of("segments")])
    assert whole.decoder_self is not None
    assert pieces.decoder_self is not None
    np.testing.assert_allclose(pieces.decoder_self.weights, whole.decoder_self.weights, atol=1e-5)


@EACH_MODEL
def test_predictions_and_their_log_probability(name: str) -> None:
    built, row = model(name), row_of(name)
    attention = analyzer(name, context=20).attention(TEXT, candidates=3, without_heads=True)
    total, best = 0.0, []
    with torch.no_grad():
        for position in range(1, len(row)):
            if isinstance(built, MaskedModel):
                if row[position] == EOS:
                    continue
                masked = torch.tensor([[*row[:position], MASK, *row[position + 1 :]]])
                states = built.encode(masked, torch.ones_like(masked, dtype=torch.bool))
                log_probabilities = built.predict(states[0, position]).log_softmax(-1)
            else:
                log_probabilities = built.project(built(torch.tensor([row])).states[0, position - 1]).log_softmax(-1)  # type: ignore[operator]
            total += float(log_probabilities[row[position]])
            best.append(vocabulary().texts([int(log_probabilities.argmax())])[0])
    assert attention.log_probability == pytest.approx(total, abs=1e-3)
    predicted = [candidates[0].token for candidates in attention.candidates]
    assert predicted[: len(best)] == best
    # A language model also predicts how the text continues.
    assert len(predicted) == len(attention.predicted) + (name != "masked")
    assert len(attention.predicted) == len(TEXT)
    assert len(attention.without) == sum(
        arrays.weights.shape[0] * arrays.weights.shape[1] for _, arrays in attention.kinds()
    )
    ablation = attention.without[-1]
    output, log_probability = analyzer(name, context=20).predict_without(attention, [ablation.head])
    assert output == ablation.translation
    assert log_probability == pytest.approx(ablation.log_probability, abs=1e-3)
    assert ablation.log_probability != pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("name", ["full", "masked"])
def test_heads_over_windows_of_text(name: str) -> None:
    analysed = analyzer(name)
    windows = analysed.windows([Part("O Romeo, Romeo! wherefore", False), Part(" art", True), Part("x", True)], 9)
    assert [window[0] == BOS for window in windows] == ([True] * 4 if name == "masked" else [True, False, False, True])
    assert all(len(window) <= 16 for window in windows)
    measurements = analysed.measure_heads(windows)
    assert measurements.sentences == 4
    predictions = predictions_of_corpus(model(name), windows)
    assert measurements.target_tokens == len(predictions.targets)
    assert measurements.loss == pytest.approx(analysed.loss_without(windows, []), abs=1e-5)
    for measured in measurements.heads:
        assert measured.importance == pytest.approx(
            analysed.loss_without(windows, [measured.statistics.head]) - measurements.loss, abs=1e-5
        )
        assert (measured.statistics.next == 0) == (name == "full")


def test_windows_are_limited_and_need_text() -> None:
    assert len(analyzer("full").windows([Part(TEXT * 9, True)], 2)) == 2
    with pytest.raises(CorpusError, match="no text of at least two tokens"):
        analyzer("full").windows([Part("", True)], 2)


@pytest.mark.parametrize(("text", "message"), [("", "the text is empty"), ("x" * 16, "16 tokens, .* at most 15")])
def test_texts_that_cannot_be_shown(text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        analyzer("full").attention(text)


def test_a_model_without_attention_and_one_without_predictions() -> None:
    recurrent = analyzer("recurrent")
    with pytest.raises(ModelError, match="no attention, so there is nothing to show"):
        recurrent.attention("Romeo")
    with pytest.raises(ModelError, match="no attention, so it has no heads"):
        recurrent.measure_heads([[BOS, 5, 6]])
    encoder = analyzer("masked")
    assert isinstance(encoder.model, MaskedModel)
    head, encoder.model.head = encoder.model.head, None
    try:
        attention = encoder.attention("Romeo", without_heads=True)
        with pytest.raises(ModelError, match="predicts no tokens"):
            encoder.measure_heads([[BOS, 5, 6, EOS]])
    finally:
        encoder.model.head = head
    assert attention.log_probability is None
    assert attention.candidates == ()
    assert attention.without == ()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(write_language_model(tmp_path / "model"))
    (tmp_path / "corpus.txt").write_text("O Romeo, Romeo! wherefore art thou Romeo?\n" * 3)
    page, picture, numbers = (str(tmp_path / name) for name in ("page.html", "picture.svg", "arrays.npz"))
    for out in (page, picture, numbers):
        assert run(["attention", directory, "Romeo!", "--out", out]) == 0
    assert '"isText":true' in Path(page).read_text()
    assert "causal self-attention" in Path(picture).read_text()
    arrays = np.load(numbers, allow_pickle=False)
    assert arrays["target"].tolist() == ["<s>", *"Romeo!"]
    assert arrays["decoder_self.weights"].shape[2:] == (7, 7)
    report = [directory, str(tmp_path / "corpus.txt"), "--report", str(tmp_path / "heads.html"), "--prune", "1"]
    assert run(["attention", *report]) == 0
    out = capsys.readouterr().out
    assert "causal self-attention 1.1" in out
    assert "before," in out
    assert "predicted tokens, loss" in (tmp_path / "heads.html").read_text()
    assert run(["attention", directory, "Romeo!", "--target", "x", "--out", page]) == 2
    assert "does not translate: leave it out" in capsys.readouterr().err
