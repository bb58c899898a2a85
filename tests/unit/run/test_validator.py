"""The search of a validation during training."""

import pytest

from dragoman.data.readers import Pair
from dragoman.run.validator import Validator
from tests.support.small_translator import WORDS, random_models, tokenizer


def longest_output(pairs: list[Pair], max_length: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of subwords of the longest output of a model that never ends an output."""
    (model,) = random_models(1)
    validator = Validator(pairs, tokenizer(), max_length=max_length, batch_tokens=1000, precision="fp32")
    step = model.step

    def without_end(token: object, state: object) -> object:
        logits, following = step(token, state)  # type: ignore[arg-type]
        logits[:, tokenizer().encode_target([WORDS[0]])[0][0]] = 100.0
        return logits, following

    monkeypatch.setattr(model, "step", without_end)
    outputs = [sample.output for sample in validator(model).samples]
    return max(len(row) for row in tokenizer().encode_target(outputs))


def test_outputs_are_limited_by_short_references_of_long_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = " ".join(WORDS[:3])
    limit = 2 * len(tokenizer().encode_target([reference])[0]) + 10
    assert longest_output([Pair(" ".join(WORDS * 20), reference)], 1000, monkeypatch) == pytest.approx(limit, abs=2)


def test_outputs_are_limited_by_the_sources_of_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(WORDS)
    limit = int(1.5 * len(tokenizer().encode_source([text])[0])) + 10
    assert longest_output([Pair(text, text)], 1000, monkeypatch) == pytest.approx(limit, abs=2)
