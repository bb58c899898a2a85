"""Requests and answers of /v1, from which the OpenAPI description is made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from dragoman.serving.texts.service import Detection, TranslatedSentence, TranslatedText


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "The text contains the character NUL: remove it")
    return text


Text = Annotated[str, AfterValidator(_without_nul)]
LanguageCode = Annotated[str, Field(min_length=1, max_length=35, examples=["en"])]


class Schema(BaseModel):
    """What all requests and answers share: types are not converted, and unknown names are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TranslationOptions(Schema):
    """How texts are translated."""

    source: LanguageCode = Field(description='Code of the source language, or "auto" to detect it.')
    target: LanguageCode = Field(description="Code of the target language.")
    format: Literal["text", "html"] = Field("text", description='"html" keeps the tags of the text.')
    alternatives: int = Field(0, ge=0, description="Number of alternatives beside the best translation.")
    alignment: bool = Field(False, description="Whether to return links between words.")
    words: bool = Field(False, description="Whether to return the probability of each word.")
    split_sentences: bool = Field(True, description="Whether the sentences of a line are translated one by one.")


class TranslateRequest(TranslationOptions):
    """Texts to translate."""

    texts: list[Text] = Field(min_length=1, description="The texts.")
    prefix: Text = Field(
        "",
        max_length=2000,
        description="Text with which the translation of the first sentence begins; for a single text. Alternatives "
        "begin with it, too.",
    )


class StreamRequest(TranslationOptions):
    """A text to translate sentence by sentence."""

    text: Text = Field(description="The text.")


class AttentionRequest(Schema):
    """A sentence whose attention is computed."""

    text: Text = Field(description="The sentence.")
    source: LanguageCode = Field(description='Code of the source language, or "auto" to detect it.')
    target: LanguageCode = Field(description="Code of the target language.")
    translation: Text | None = Field(None, description="The translation. Defaults to that of the model.")
    format: Literal["json", "html"] = Field(
        "json", description='"json" for the weights, "html" for a page that shows them, and needs no network.'
    )


class AttentionAnswer(Schema):
    """Attention weights of all heads while the model reads a sentence and writes its translation."""

    text: str
    translation: str
    source: list[str] = Field(description="Tokens that the encoder reads; empty for a model without an encoder.")
    target: list[str] = Field(description="Tokens that the decoder reads.")
    predicted: list[str] = Field(description="Tokens that the decoder predicts, one for each of `target`.")
    log_probability: float | None = Field(description="Natural logarithm of the probability of the translation.")
    right_to_left: bool = Field(description="Whether the model writes the translation from its end.")
    weights: dict[Literal["encoder_self", "decoder_self", "encoder_decoder"], list[list[list[list[float]]]]] = Field(
        description="Weights [layer][head][query][key] of each kind of attention that the model has. Queries and keys "
        "are `source` for encoder_self, `target` for decoder_self; `predicted` and `source` for encoder_decoder."
    )


class DetectRequest(Schema):
    """A text whose language is detected."""

    text: Text = Field(description="The text.")


class DetectedLanguage(Schema):
    """A language in which a text may be written."""

    language: str = Field(description="Code of the language.")
    confidence: float = Field(ge=0, le=1, description="0 to 1.")


class DetectAnswer(Schema):
    """Languages in which a text may be written, most probable first."""

    detections: list[DetectedLanguage]


class ServedLanguage(Schema):
    """A language that can be a source."""

    code: str
    name: str = Field(description="Its name in English.")
    targets: list[str] = Field(description="Codes of the languages into which it can be translated.")


class RequestLimits(Schema):
    """Largest sizes of a request."""

    characters: int = Field(description="Characters of all texts of a request.")
    texts: int = Field(description="Texts of a request.")
    alternatives: int = Field(description="Alternatives of a translation.")


class LanguagesAnswer(Schema):
    """Languages and limits of the server."""

    languages: list[ServedLanguage]
    limits: RequestLimits


class SentenceAlternative(Schema):
    """One of the outputs of the search for a sentence."""

    text: str
    score: float
    log_probability: float


class Sentence(Schema):
    """A sentence and its translation."""

    source: str = Field(description="The sentence, without the white space around it.")
    translation: str
    before: str = Field(description="White space before the sentence, line feeds included; in HTML, tags too.")
    score: float = Field(description="Log-probability divided by the length penalty, by which the search ranks.")
    log_probability: float = Field(description="Natural logarithm of the probability of the translation.")
    confidence: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Probability that the translation is good: of all sentences with 0.7, about 70 % are, in text like "
        "that to which it was fitted. Missing if it is not known: `dragoman calibrate` was not run on the model, two "
        "models were used, the output was cut, copied or guarded.",
    )
    words: list[float] | None = Field(
        None,
        description="Probability of each word of the translation, given the source and the words before it, if "
        "requested. Words are separated by spaces. Missing if it is not known: two models were used, or the source was "
        "copied.",
    )
    alternatives: list[SentenceAlternative] = Field(description="Other outputs of the search, best first.")
    truncated: bool = Field(description="Whether the end of the translation may be missing.")
    cut: bool = Field(description="Whether the sentence was too long, and was translated in segments.")
    copied: int = Field(description="Number of characters that were copied without translation.")
    too_long: bool = Field(description="Whether the sentence was copied as a whole, because it is too long.")
    invalid_utf8: bool = Field(description="Whether bytes that are not UTF-8 were replaced by U+FFFD.")
    guarded: Literal["greedy", "source"] | None = Field(
        None,
        description='What replaced an output that repeats itself or is too long: "greedy" for the output of greedy '
        'search, "source" for a copy of the source. Missing if nothing did.',
    )
    links: list[tuple[int, int]] | None = Field(
        None,
        description="Links [source word, target word], if requested. Words are separated by white space and counted "
        "from 0.",
    )


class TranslatedTextAnswer(Schema):
    """The translation of a text."""

    text: str = Field(description="The translation; white space between sentences and at the ends is the source's.")
    alternatives: list[str] = Field(description="Other translations, best first.")
    source: str = Field(description="Code of the source language, as given or detected.")
    detection: DetectedLanguage | None = Field(
        None, description="What was detected. Missing if the source language was given."
    )
    confidence: float | None = Field(
        None, ge=0, le=1, description="Mean confidence of the sentences. Missing if a sentence has none."
    )
    through: str | None = Field(
        None, description="Code of the third language. Missing if the server has a model for the pair."
    )
    sentences: list[Sentence] = Field(description="The sentences, in order.")
    after: str = Field(description="White space at the end of the text.")


class TranslateAnswer(Schema):
    """The translation of each text, in order."""

    translations: list[TranslatedTextAnswer]


class Failure(Schema):
    """Why a request was not answered."""

    message: str


class ErrorAnswer(Schema):
    """An error."""

    error: Failure


def sentence_answer(sentence: TranslatedSentence) -> Sentence:
    """Return a sentence as the answer has it."""
    translation = sentence.translation
    return Sentence(
        source=sentence.source,
        translation=translation.text,
        before=sentence.before,
        score=translation.score,
        log_probability=translation.log_probability,
        confidence=translation.confidence,
        words=None if translation.word_probabilities is None else list(translation.word_probabilities),
        alternatives=[
            SentenceAlternative(text=other.text, score=other.score, log_probability=other.log_probability)
            for other in translation.alternatives[1:]
        ],
        truncated=translation.truncated,
        cut=translation.cut,
        copied=translation.copied,
        too_long=translation.too_long,
        invalid_utf8=translation.invalid_utf8,
        guarded=sentence.guarded or None,
        links=None if translation.alignment is None else list(translation.alignment),
    )


def detected_language(detection: Detection) -> DetectedLanguage:
    """Return a detected language as the answer has it."""
    return DetectedLanguage(language=detection.language, confidence=detection.confidence)


def text_answer(text: TranslatedText) -> TranslatedTextAnswer:
    """Return the translation of a text as the answer has it."""
    detected = text.detected
    return TranslatedTextAnswer(
        text=text.text,
        alternatives=list(text.alternatives),
        source=text.source,
        detection=detected_language(detected) if detected else None,
        confidence=text.confidence,
        through=text.through,
        sentences=[sentence_answer(sentence) for sentence in text.sentences],
        after=text.after,
    )
