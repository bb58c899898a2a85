"""Detection of languages."""

import asyncio

import pytest

from dragoman.serving.texts.detection import LanguageDetector
from dragoman.serving.texts.service import TextOptions, TranslationService
from tests.support.serving_texts import identity_lines, upper_lines


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    detector = LanguageDetector()
    asyncio.run(detector.load())
    return detector


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the next railway station?", "en"),
        ("Wo ist der nächste Bahnhof, bitte?", "de"),
        ("Где находится ближайший вокзал?", "ru"),
        ("一番近い駅はどこですか", "ja"),
    ],
)
def test_candidates(detector: LanguageDetector, text: str, language: str) -> None:
    candidates = detector.candidates(text)
    assert candidates[0].language == language
    confidences = [candidate.confidence for candidate in candidates]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0.01 <= confidence <= 1 for confidence in confidences)


@pytest.mark.parametrize("text", ["", " ", "ok", "12345 67", "\0\ud800", "!?"])
def test_no_language_can_be_detected(detector: LanguageDetector, text: str) -> None:
    [candidate] = detector.candidates(text)
    assert (candidate.language, candidate.confidence) == ("en", 0.0)
    assert detector.best_of(["cs", "en-GB"], text).language == "en-GB"
    assert detector.best_of(["cs", "de"], text).language == "cs"


def test_the_confidence_of_a_language_of_the_server_is_low_for_another_language(detector: LanguageDetector) -> None:
    text = "Где находится ближайший вокзал?"
    assert detector.best_of(["de", "en", "xx"], text).confidence < 0.1
    assert detector.best_of(["de", "ru-RU"], text).language == "ru-RU"
    assert detector.best_of(["xx"], text).confidence == 0


def test_auto() -> None:
    lines = upper_lines([("en", "de"), ("fr", "de")])
    options = TextOptions(source="auto", target="de")
    texts = [
        "Where is the next railway station?",
        "Où se trouve la gare, s'il vous plaît ?",
        "Wo ist der Bahnhof?",
        "ok",
    ]
    results = asyncio.run(TranslationService(lines).translate(texts, options))
    assert [result.source for result in results] == ["en", "fr", "de", "en"]
    # A text in the target language is not translated.
    assert results[2].text == texts[2]
    assert results[3].detected is not None
    assert results[3].detected.confidence == 0


def test_auto_does_not_read_tags() -> None:
    options = TextOptions(source="auto", target="cs", format="html")
    html = '<p class="where is the next station">Wo ist der Bahnhof?</p><script>where is the next one</script>'
    [result] = asyncio.run(TranslationService(identity_lines([("en", "cs"), ("de", "cs")])).translate([html], options))
    assert result.source == "de"
