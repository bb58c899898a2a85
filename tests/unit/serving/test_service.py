"""`TranslationService`: sentences, languages, pivoting, alternatives, cancellation."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.serving.language_codes import matching_codes, normalized
from dragoman.serving.lines import LineOptions, LocalLines, Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.alternatives import best_combinations
from dragoman.serving.texts.languages import LanguagePairs, name_of
from dragoman.serving.texts.service import TextOptions, TranslationService
from dragoman.text.lines import clean_line
from dragoman.translation.results import Translation
from tests.support.serving_texts import FunctionLines, identity_lines, translated, translation_of, upper_lines
from tests.support.small_translator import random_translator

_TEXTS = st.text() | st.lists(
    st.sampled_from(
        ["Hello.", "World!", "Dr. Smith", "これは。", "\n", "\r\n", " ", "\0", "\x85", "\t", "\u2028", "&", "<b>"]
    )
).map("".join)


@settings(deadline=None, max_examples=300)
@given(_TEXTS, st.booleans(), st.sampled_from(["en", "ja", "xx", "de-AT"]))
def test_identity_gives_the_text_back(text: str, split: bool, source: str) -> None:
    lines = identity_lines([(source, "fr")])
    assert translated(lines, text, source=source, target="fr", split_sentences=split).text == text
    # Cleaning a sentence changes nothing, and none is empty.
    assert all(line and line == clean_line(line) for line in lines.lines)


def test_sentences_and_white_space() -> None:
    lines = upper_lines()
    result = translated(lines, "  One is.  Two are!\r\n\n\tThree.\0Four \n")
    assert result.text == "  ONE IS.  TWO ARE!\r\n\n\tTHREE.\0FOUR \n"
    assert lines.lines == ["One is.", "Two are!", "Three.", "Four"]
    assert [sentence.before for sentence in result.sentences] == ["  ", "  ", "\r\n\n\t", "\0"]
    assert result.after == " \n"
    assert lines.most_active == 4


def test_a_line_is_a_unit_if_sentences_are_not_split() -> None:
    lines = upper_lines()
    assert translated(lines, "One. Two.\nThree.", split_sentences=False).text == "ONE. TWO.\nTHREE."
    assert lines.lines == ["One. Two.", "Three."]


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t", "\u2028"])
def test_no_model_is_run_without_text(text: str) -> None:
    lines = upper_lines()
    assert translated(lines, text).text == text
    assert lines.lines == []


def test_lone_surrogates_are_replaced() -> None:
    assert translated(identity_lines(), "a\ud800b").text == "a\ufffdb"


def test_a_space_separates_sentences_of_a_script_without_spaces() -> None:
    lines = FunctionLines(lambda pair, line, options: translation_of(f"Is {len(line)}."), [("ja", "en")])
    assert translated(lines, "これは。テストです。", source="ja", target="en").text == "Is 4. Is 6."


def test_pivoting_and_languages() -> None:
    pairs = [("de", "en"), ("en", "fr"), ("de", "cs"), ("cs", "fr"), ("fr", "en")]
    lines = FunctionLines(lambda pair, line, options: translation_of(f"{line}>{pair[1]}"), pairs)
    result = translated(lines, "x", source="de-AT", target="FR")
    assert (result.text, result.through) == ("x>en>fr", "en")
    languages = {each.code: each for each in TranslationService(lines).languages()}
    assert languages["de"].targets == ("cs", "en", "fr")
    assert languages["de"].name == "German"
    assert languages["fr"].targets == ("en",)
    assert translated(lines, "Same. Text", source="en-US", target="en").text == "Same. Text"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [("xx", "en", "xx is not supported"), ("en", "de", r"German \(de\) is not available as a target language")],
)
def test_unsupported_languages(source: str, target: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as error:
        translated(identity_lines([("de", "en")]), "x", source=source, target=target)
    assert error.value.status == 400


def test_regional_variants() -> None:
    pairs = LanguagePairs([("en", "pt"), ("en", "pt-BR"), ("en-GB", "de")])
    assert pairs.route("en-US", "pt_br") == [("en", "pt-BR")]
    assert pairs.route("EN", "pt-PT") == [("en", "pt")]
    assert pairs.route("en", "de") == [("en-GB", "de")]
    assert (normalized("ZH-HANS"), name_of("pt-BR"), name_of("de-AT"), name_of("qqq")) == (
        "zh-Hans",
        "Portuguese (Brazil)",
        "German",
        "qqq",
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("PT-PT", ["pt_BR"]),
        ("en", ["en", "en-GB"]),
        ("EN-us", ["en", "en-GB"]),
        ("nb-NO", ["no"]),
        ("ZH-HANT", ["zh"]),
        ("es-419", ["es"]),
        ("sr", ["sr-Latn"]),
        ("sr-Cyrl", []),
        ("xx", []),
    ],
)
def test_codes_of_clients(code: str, expected: list[str]) -> None:
    assert matching_codes(code, ["en-GB", "en", "es", "no", "pt_BR", "sr-Latn", "zh"]) == expected


def test_links_of_two_steps_are_put_together() -> None:
    links = {("de", "en"): ((0, 1), (1, 0)), ("en", "fr"): ((0, 2), (1, 1))}
    lines = FunctionLines(lambda pair, line, options: translation_of("a b c", alignment=links[pair]), list(links))
    [sentence] = translated(lines, "x y z", source="de", target="fr", alignment=True).sentences
    assert sentence.translation.alignment == ((0, 1), (1, 2))


def test_alternatives_replace_sentence_by_sentence() -> None:
    def function(pair: Pair, line: str, options: LineOptions) -> Translation:
        assert options.n_best <= options.beam
        return translation_of(*(["A1.", "A1.", "A2."] if line == "First one." else ["B1.", "B2."]))

    lines = FunctionLines(function)
    result = translated(lines, "First one. Second one.", alternatives=5)
    assert result.text == "A1. B1."
    assert result.alternatives == ("A1. B2.", "A2. B1.", "A2. B2.")
    assert translated(lines, "First one. Second one.", alternatives=1).alternatives == ("A1. B2.",)
    assert translated(lines, "First one. Second one.").alternatives == ()


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=5), st.integers(0, 12))
def test_combinations_are_the_best(steps: list[list[int]], number: int) -> None:
    costs = [[float(sum(row[1 : rank + 1])) for rank in range(len(row))] for row in steps]
    texts = best_combinations(costs, lambda ranks: str([ranks.get(i, 0) for i in range(len(costs))]), number)
    every: list[list[int]] = [[]]
    for row in costs:
        every = [[*ranks, rank] for ranks in every for rank in range(len(row))]
    expected = sorted(sum(costs[i][rank] for i, rank in enumerate(ranks)) for ranks in every)[: number + 1]
    ranks_of = [[int(part) for part in text.strip("[]").split(",") if part] for text in texts]
    assert [sum(costs[i][rank] for i, rank in enumerate(ranks)) for ranks in ranks_of] == expected
    assert len(set(texts)) == len(texts)


def test_an_error_of_a_sentence_is_that_of_the_request() -> None:
    def fail(pair: Pair, line: str, options: LineOptions) -> Translation:
        raise RequestError(503, "full", retry_after=1)

    with pytest.raises(RequestError, match="full"):
        translated(FunctionLines(fail), "One. Two.")


def test_cancelling_gives_up_all_sentences() -> None:
    class Waiting(FunctionLines):
        async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
            self.active += 1
            try:
                await asyncio.sleep(60)
            finally:
                self.active -= 1
            raise AssertionError

    async def run() -> None:
        lines = Waiting(lambda pair, line, options: translation_of(line))
        options = TextOptions(source="en", target="de")
        task = asyncio.create_task(TranslationService(lines).translate(["One. Two.", "Three."], options))
        while lines.active < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lines.active == 0

    asyncio.run(run())


def test_a_real_model() -> None:
    lines = LocalLines({("en", "de"): random_translator()})
    options = TextOptions(source="en", target="de", alternatives=2)
    [result] = asyncio.run(TranslationService(lines).translate(["the lamp is on.\n turn off the light."], options))
    assert len(result.sentences) == 2
    assert "\n " in result.text
    assert len({result.text, *result.alternatives}) == 1 + len(result.alternatives)
