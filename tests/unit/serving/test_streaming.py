"""Streams of sentences: equal to the translation of the whole text, in order, and given up when they are closed."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts import text_request
from dragoman.serving.texts.service import (
    TextFormat,
    TextOptions,
    TranslatedSentence,
    TranslatedText,
    TranslationService,
)
from dragoman.translation.results import Translation
from tests.support.serving_page import WordLines
from tests.support.serving_texts import FunctionLines, identity_lines, translation_of

PAIRS = (("en", "de"), ("zh", "en"), ("en", "zh"), ("de", "fr"))
CHINESE = "\u4f60\u597d\u3002"
WORDS = st.sampled_from(
    ["Good morning", "it", "Dr", CHINESE, "\u5427\uff1f", ". ", ".", "?", " ", "\n", "\r\n", "\u2028", "\0"]
)
TEXTS = st.lists(WORDS, max_size=12).map("".join)


def translations(pair: Pair, line: str, options: LineOptions) -> Translation:
    """Return outputs in the script of the target."""
    outputs = [f"{CHINESE}{len(line)}" if pair[1] == "zh" else f"A{len(line)}.", f"B{len(line)}", CHINESE]
    return translation_of(*outputs[: options.n_best])


async def collect(service: TranslationService, text: str, options: TextOptions) -> TranslatedText:
    """Return the text that ends a stream, which must be that of `translate`."""
    *sentences, whole = [item async for item in service.stream(text, options)]
    [expected] = await service.translate([text], options)
    assert isinstance(whole, TranslatedText)
    assert whole == expected
    assert list(whole.sentences) == sentences
    if options.format == "text":
        parts = [sentence.before + sentence.translation.text for sentence in whole.sentences]
        assert "".join([*parts, whole.after]) == expected.text
    return whole


@given(
    text=TEXTS | st.text(),
    pair=st.sampled_from([*PAIRS, ("en", "fr"), ("de", "de")]),
    alternatives=st.integers(0, 2),
    text_format=st.sampled_from(["text", "html"]),
    split=st.booleans(),
)
def test_a_stream_is_the_translation_of_the_text(
    text: str, pair: Pair, alternatives: int, text_format: TextFormat, split: bool
) -> None:
    options = TextOptions(
        source=pair[0], target=pair[1], alternatives=alternatives, format=text_format, split_sentences=split
    )
    asyncio.run(collect(TranslationService(FunctionLines(translations, PAIRS)), text, options))


def test_a_space_is_added_after_chinese() -> None:
    service = TranslationService(FunctionLines(translations, PAIRS))
    whole = asyncio.run(collect(service, f" {CHINESE}{CHINESE}", TextOptions(source="zh", target="en")))
    assert [sentence.before for sentence in whole.sentences] == [" ", " "]
    assert whole.text == " A3. A3."
    whole = asyncio.run(collect(service, "One. Two.", TextOptions(source="en", target="zh")))
    assert [sentence.before for sentence in whole.sentences] == ["", " "]


def test_the_language_is_detected_as_that_of_a_whole_text() -> None:
    options = TextOptions(source="auto", target="en")
    service = TranslationService(identity_lines([("de", "en"), ("fr", "en")]))
    for text in ("Wo ist der n\u00e4chste Bahnhof? Er ist weit weg.", "Where is the railway station?", "", "ok"):
        asyncio.run(collect(service, text, options))


@pytest.mark.parametrize("text", ["", " \n ", "\n\n", "a", " One.  Two.\r\nThree.", "a\x0bb\u2028c\x00. d"])
@pytest.mark.parametrize("split", [True, False])
def test_a_stream_keeps_white_space_and_controls(text: str, split: bool) -> None:
    options = TextOptions(source="en", target="de", split_sentences=split)
    assert asyncio.run(collect(TranslationService(identity_lines()), text, options)).text == text


def test_a_sentence_is_available_before_later_ones() -> None:
    async def first() -> object:
        stream = TranslationService(lines).stream("Good morning. It works slowly.", options)
        sentence = await anext(stream)
        assert (lines.began, lines.finished) == (["Good morning.", "It works slowly."], ["Good morning."])
        await stream.aclose()
        return sentence

    lines = WordLines()
    options = TextOptions(source="en", target="de")
    sentence = asyncio.run(first())
    assert isinstance(sentence, TranslatedSentence)
    assert sentence.translation.text == "Guten Morgen."
    assert lines.cancelled == ["It works slowly."]


def test_a_stream_that_fails_gives_up_the_other_sentences() -> None:
    lines = WordLines()
    with pytest.raises(RequestError):
        asyncio.run(
            collect(TranslationService(lines), "unlucky. It works slowly.", TextOptions(source="en", target="de"))
        )
    assert lines.cancelled == ["It works slowly."]


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_with_many_sentences_has_few_tasks(stream: bool) -> None:
    most_tasks = 0

    def translate(pair: Pair, line: str, options: LineOptions) -> Translation:
        nonlocal most_tasks
        most_tasks = max(most_tasks, len(asyncio.all_tasks()))
        return translation_of(line.upper())

    async def texts() -> list[str]:
        service, options = TranslationService(lines), TextOptions(source="en", target="de")
        if not stream:
            return [each.text for each in await service.translate(["a\n" * 300, "b\n" * 200], options)]
        [*_, whole] = [item async for item in service.stream("a\n" * 500, options)]
        assert isinstance(whole, TranslatedText)
        return [whole.text]

    lines = FunctionLines(translate)
    assert asyncio.run(texts()) == (["A\n" * 500] if stream else ["A\n" * 300, "B\n" * 200])
    assert lines.most_active == (text_request.STREAMED_AT_ONCE if stream else text_request.AT_ONCE)
    assert most_tasks <= text_request.STREAMED_AHEAD + 2
