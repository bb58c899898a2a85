"""Confidence: its fit to held-out translations, its file in a model directory, and translations that have none."""

import json
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import CorpusError, ModelError
from dragoman.models.description import CONFIDENCE_FILE, ModelDescription, load_description, save_description
from dragoman.models.quantization import quantize_model
from dragoman.search.config import SamplingConfig
from dragoman.search.results import Hypothesis
from dragoman.translation.confidence import GOOD_CHRF, LARGEST_PARAMETER, Confidence, certainty
from dragoman.translation.rated_lines import RatedLines
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator
from tests.support.small_translator import copy_translator, model_config, write_model

FITTED = Confidence(slope=8.0, offset=-4.0, good_chrf=GOOD_CHRF, lines=500)
TRANSLATION = Translation(
    text="das Haus",
    log_probability=-1.0,
    score=-1.0,
    alternatives=(),
    segments=1,
    cut=False,
    truncated=False,
    invalid_utf8=False,
    tokens=4,
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path, 0, right_to_left=False)


def of_certainty(value: float, text: str = "das Haus") -> Translation:
    return replace(TRANSLATION, text=text, log_probability=4 * math.log(value))


def rated(lines: int) -> RatedLines:
    """Return lines of which those with a higher certainty are good more often."""
    generator = np.random.default_rng(4)
    values = generator.uniform(0.01, 1, size=lines)
    good = generator.uniform(size=lines) < values
    return RatedLines(certainties=values.tolist(), good=good.tolist(), left_out=0)


def test_the_certainty_is_the_geometric_mean_of_the_probabilities_of_the_tokens() -> None:
    assert certainty(TRANSLATION) == pytest.approx(math.exp(-0.25))
    assert certainty(replace(TRANSLATION, log_probability=1e-9)) == 1
    for change in ({"truncated": True}, {"copied": 3}, {"invalid_utf8": True}, {"tokens": 0}):
        changed = replace(TRANSLATION, **change)
        assert certainty(changed) is None
        assert FITTED.of(changed) is None


@given(
    st.floats(0, LARGEST_PARAMETER),
    st.floats(-LARGEST_PARAMETER, LARGEST_PARAMETER),
    st.lists(st.floats(-1e6, 0), min_size=2, max_size=5),
)
def test_the_confidence_is_a_probability_that_rises_with_the_certainty(
    slope: float, offset: float, log_probabilities: list[float]
) -> None:
    confidence = Confidence(slope=slope, offset=offset, good_chrf=GOOD_CHRF, lines=300)
    values = [confidence.of(replace(TRANSLATION, log_probability=each)) or 0.0 for each in sorted(log_probabilities)]
    assert all(0 <= value <= 1 for value in values)
    assert values == sorted(values)


def test_lines_are_good_from_a_chrf_on() -> None:
    lines = RatedLines.of(
        [of_certainty(0.9), of_certainty(0.4), replace(TRANSLATION, truncated=True)],
        ["das Haus", "ein Garten", "das Haus"],
    )
    assert list(lines.good) == [True, False]
    assert list(lines.certainties) == [pytest.approx(0.9), pytest.approx(0.4)]
    assert lines.left_out == 1


def test_the_fit_follows_the_share_of_good_lines() -> None:
    confidence = rated(2000).fit()
    assert confidence.at(0.9) > 0.8 > 0.5 > 0.2 > confidence.at(0.1)
    assert confidence.lines == 2000
    # Each line is left out of one of the five fits.
    again = rated(2000).cross_validated()
    assert again == pytest.approx([confidence.at(value) for value in rated(2000).certainties], abs=0.05)
    assert again != [confidence.at(value) for value in rated(2000).certainties]


def test_too_few_lines_and_senseless_ones_are_refused() -> None:
    with pytest.raises(CorpusError, match="there are 299 lines to fit the confidence to: give at least 300"):
        rated(299).fit()
    rated(300).fit()
    values = rated(300).certainties
    with pytest.raises(CorpusError, match="19 of 300 lines are good"):
        RatedLines(certainties=values, good=[True] * 19 + [False] * 281, left_out=0).fit()
    with pytest.raises(CorpusError, match="are not the better ones"):
        RatedLines(certainties=values, good=[value < 0.5 for value in values], left_out=0).fit()


def test_the_file_belongs_to_the_model_directory(model: Path, tmp_path: Path) -> None:
    assert Confidence.load(model, load_description(model)) is None
    FITTED.save(model)
    assert Confidence.load(model, load_description(model)) == FITTED
    quantize_model(model, tmp_path / "int8")
    assert Confidence.load(tmp_path / "int8", load_description(tmp_path / "int8")) == FITTED
    (model / CONFIDENCE_FILE).write_text((model / CONFIDENCE_FILE).read_text().replace("8.0", "9.0"))
    with pytest.raises(ModelError, match=r"its bytes are not those that config\.json lists; `dragoman calibrate`"):
        Translator.load(model, engine="torch")


GOOD_VALUES = {"slope": 8.0, "offset": -4.0, "good_chrf": 70.0, "lines": 500}
DAMAGED = [
    "",
    "{",
    "[]",
    "[" * 900,
    "{}",
    " " * 2000,
    *(
        json.dumps(GOOD_VALUES | change)
        for change in (
            {"slope": math.nan},
            {"slope": -1.0},
            {"slope": 1e300},
            {"slope": 10**400},
            {"offset": math.inf},
            {"offset": "0"},
            {"offset": None},
            {"offset": True},
            {"offset": [1]},
            {"good_chrf": -1.0},
            {"good_chrf": 101},
            {"lines": 0},
            {"lines": 1.5},
            {"lines": -(10**30)},
            {"\x1b[31m\n": 1},
        )
    ),
    '{"slope": 1, "slope": 2, "offset": 0, "good_chrf": 70, "lines": 500}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:60])
def test_a_damaged_file_is_an_error_that_names_the_file(model: Path, text: str) -> None:
    (model / CONFIDENCE_FILE).write_text(text, encoding="utf-8")
    if len(text) <= 1024:
        save_description(model, load_description(model))
    with pytest.raises(ModelError, match=r"confidence\.json") as caught:
        Confidence.load(model, load_description(model))
    assert str(caught.value).isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.binary(max_size=1200)
    | st.fixed_dictionaries(dict.fromkeys(GOOD_VALUES, JSON)).map(lambda values: json.dumps(values).encode())
)
@settings(max_examples=300)
def test_any_file_gives_a_confidence_or_a_clear_error(data: bytes) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / CONFIDENCE_FILE).write_bytes(data)
        old = ModelDescription(architecture="transformer", model=model_config(), trained_length=9, format=1)
        message, confidence = CONFIDENCE_FILE, None
        try:
            confidence = Confidence.load(directory, old)
        except ModelError as error:
            message = str(error)
    assert CONFIDENCE_FILE in message
    assert confidence is None or 0 <= confidence.at(0.0) <= confidence.at(1.0) <= 1


def test_translations_of_a_calibrated_model_have_a_confidence(model: Path) -> None:
    lines: list[str | bytes] = ["the lamp is on", "", " ".join(["the lamp is on."] * 20), b"the \xff lamp"]
    plain = Translator.load(model, engine="torch").translate(lines)
    assert {translation.confidence for translation in plain} == {None}
    FITTED.save(model)
    translator = Translator.load(model, engine="torch")
    translations = translator.translate(lines)
    assert [replace(each, confidence=None) for each in translations] == plain
    for translation in translations:
        assert translation.confidence == FITTED.of(translation)
    assert translations[1].confidence is translations[3].confidence is None
    assert list(translator.translate_stream(lines)) == translations


def test_samples_beginnings_and_ensembles_have_none(model: Path, tmp_path: Path) -> None:
    FITTED.save(model)
    translator = Translator.load(model, engine="torch")
    line = ["the lamp is on"]
    [beginning] = translator.translate(line, prefixes=["the"])
    [sample] = translator.translate(line, sampling=SamplingConfig(samples=1))
    assert beginning.confidence is sample.confidence is None
    (tmp_path / "other").mkdir()
    other = write_model(tmp_path / "other", 1, right_to_left=False)
    [both] = Translator.load(model, other, engine="torch").translate(line)
    assert both.confidence is None


def test_a_program_that_searches_by_itself_gets_the_confidence_and_the_number_of_tokens() -> None:
    plain, _ = copy_translator()
    translator = Translator(plain.backend, plain.tokenizer, max_source_tokens=20, confidence=FITTED)
    steps = translator.line_steps("the lamp")
    inputs = next(steps)
    outputs = [
        [Hypothesis(tokens=tuple(row.source), log_probability=-0.5, score=-0.5, finished=True)] for row in inputs
    ]
    with pytest.raises(StopIteration) as end:
        steps.send(outputs)
    translation = end.value.value
    assert translation.tokens == len(inputs[0].source) + 1
    assert translation.confidence == FITTED.at(math.exp(-0.5 / translation.tokens))
