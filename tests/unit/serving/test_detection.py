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
    ]
    results = asyncio.run(TranslationService(lines).translate(texts, options))
    assert [result.source for result in results] == ["en", "fr", "de"]
    # A text in the target language is not translated.
    assert results[2].text == texts[2]
    [result] = asyncio.run(TranslationService(lines).translate(["ok"], options))
    assert result.source == "en"
    assert result.detected is not None
    assert result.detected.confidence == 0


@pytest.mark.parametrize("text", ["lamp", "Log in", "Password", "Help", "ok", "12"])
def test_a_short_text_is_not_taken_to_be_in_the_target_language(detector: LanguageDetector, text: str) -> None:
    assert detector.best_of(["de", "en"], text, target="de").language == "en"
    assert detector.best_of(["de", "en"], text, target="en").language == "de"
    # There is no other language.
    assert detector.best_of(["de"], text, target="de").language == "de"


def test_a_text_that_is_clearly_in_the_target_language(detector: LanguageDetector) -> None:
    for text in ("Das Passwort ist falsch", "Wo ist der Bahnhof?"):
        assert detector.best_of(["en", "de"], text, target="de").language == "de"


def test_short_texts_of_a_list_have_the_language_of_the_list(detector: LanguageDetector) -> None:
    french = ["Table", "Enregistrer le document sous un autre nom de fichier", "Style", "Insertion d'une image"]
    assert detector.best_of(["de", "en", "fr"], "Table", target="de").language == "en"
    detections = detector.best_of_each(["de", "en", "fr"], french, target="de")
    assert [detection.language for detection in detections] == ["fr"] * 4
    detections = detector.best_of_each(["de", "en", "fr"], [*french, "Wo ist der Bahnhof?"], target="de")
    assert [detection.language for detection in detections] == ["fr"] * 4 + ["de"]


def test_auto_does_not_read_tags() -> None:
    options = TextOptions(source="auto", target="cs", format="html")
    html = '<p class="where is the next station">Wo ist der Bahnhof?</p><script>where is the next one</script>'
    [result] = asyncio.run(TranslationService(identity_lines([("en", "cs"), ("de", "cs")])).translate([html], options))
    assert result.source == "de"
