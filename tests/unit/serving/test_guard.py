"""The guard against repetition and hallucination."""

from dataclasses import replace

import pytest

from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.texts.guard import reason_to_reject
from dragoman.translation.results import Translation
from tests.support.serving_texts import FunctionLines, translated, translation_of


@pytest.mark.parametrize(
    ("source", "output", "log_probability", "reason"),
    [
        ("ID", "Identifikationsnummer", -3.0, ""),
        ("AI", "künstliche Intelligenz", -3.0, ""),
        ("one million", "1000000", -1.0, ""),
        ("very very very good", "sehr sehr sehr gut", -3.0, ""),
        ("中华人民共和国", "People's Republic of China", -3.0, ""),
        ("smiling face with heart eyes", "😍", -6.0, ""),
        ("communication", "コミュニケーション", -3.0, ""),
        ("configuration", "コンフィギュレーション", -3.0, ""),
        ("AIDS", "获得性免疫缺陷综合征", -3.0, ""),
        ("我不知道该怎么办才好", "I do not know what I should do about any of it", -9.0, ""),
        ("no, no", "nein, nein, nein", -3.0, ""),
        ("no, no", "nein, " * 12, -3.0, "length"),
        ("lamp", "", 0.0, "empty"),
        ("lamp", "the lamp in the house of my brother who is not at home", -9.0, "length"),
        ("lamp of house in the street", "灯" + "我不知道该怎么办才好吗这里" * 8, -9.0, "length"),
        ("word " * 60, "Wort", -9.0, "length"),
        ("lamp", "die Lampe die Lampe die Lampe", -4.0, "repetition"),
        ("lamp", "Lalalalalalala", -4.0, "repetition"),
        ("Press <b>.", "Drücken Sie > >>>>>>>>>>", -9.0, "repetition"),
        ("a -------- line", "eine -------- Linie", -4.0, ""),
        ("ten million", "10000000", -4.0, ""),
        ("lamp", "Haus", -20.0, "score"),
        ("lamp", "Lampe", float("-inf"), "score"),
    ],
)
def test_reasons(source: str, output: str, log_probability: float, reason: str) -> None:
    assert reason_to_reject(source, translation_of(output, log_probability=log_probability)) == reason


def test_greedy_search_and_then_the_source() -> None:
    def function(pair: Pair, line: str, options: LineOptions) -> Translation:
        good = line == "good" or (line == "greedy" and options.beam == 1)
        return translation_of(line.upper() if good else "no no no no no no no no no no no")

    lines = FunctionLines(function)
    result = translated(lines, "good\ngreedy\nbad")
    assert result.text == "GOOD\nGREEDY\nbad"
    assert [sentence.guarded for sentence in result.sentences] == ["", "greedy", "source"]
    assert [options.beam for options in lines.options].count(1) == 2


def test_replaced_outputs_and_those_of_two_models_have_no_confidence() -> None:
    def function(pair: Pair, line: str, options: LineOptions) -> Translation:
        good = line == "good" or (line == "greedy" and options.beam == 1)
        return replace(translation_of(line.upper() if good else "no " * 11), confidence=0.5)

    lines = FunctionLines(function, [("en", "de"), ("de", "fr")])
    sentences = translated(lines, "good\ngreedy\nbad").sentences
    assert [sentence.translation.confidence for sentence in sentences] == [0.5, None, None]
    result = translated(lines, "good", target="fr")
    assert result.through == "de"
    assert result.sentences[0].translation.confidence is None


def test_a_source_that_the_first_of_two_models_rejects_is_copied() -> None:
    def function(pair: Pair, line: str, options: LineOptions) -> Translation:
        return translation_of("no no no no" if pair == ("en", "fr") else line.upper())

    lines = FunctionLines(function, [("de", "en"), ("en", "fr")])
    result = translated(lines, "gut", source="de", target="fr")
    assert (result.text, result.sentences[0].guarded) == ("gut", "source")


def test_rejected_alternatives_are_left_out() -> None:
    lines = FunctionLines(lambda pair, line, options: translation_of("Lampe", "ja ja ja ja", "Leuchte"))
    assert translated(lines, "lamp", alternatives=3).alternatives == ("Leuchte",)
