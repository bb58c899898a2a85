"""/v2/translate, /v2/languages and /v2/usage."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.context import ServerContext, Usage
from dragoman.serving.glossaries.store import GlossaryStore
from dragoman.serving.interfaces.deepl.calls import read_call
from dragoman.serving.interfaces.deepl.glossaries import check_glossary
from dragoman.serving.interfaces.deepl.languages import (
    base_code,
    find_source,
    find_target,
    source_languages,
    target_languages,
)
from dragoman.serving.interfaces.deepl.tags import tag_options, text_format
from dragoman.serving.interfaces.parameters import Parameters
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import TextOptions

# What DeepL reports as the limit of a key without one.
_NO_LIMIT = 1_000_000_000_000
# Without required keys, anyone may use any number of keys.
_COUNTED_OWNERS = 10_000
_FORMALITY = ("default", "prefer_more", "prefer_less")
# Whether the sentences of a text are translated one by one, and whether line breaks are spaces.
_SPLITTING = {"1": (True, False), "nonewlines": (True, True), "0": (False, True)}
_MODELS = ("latency_optimized", "prefer_quality_optimized", "quality_optimized")
# Parameters that change the translation, and that the server does not have.
_NOT_BUILT = ("glossary_ids", "style_id", "translation_memory_id", "custom_instructions")


class CharacterCounts:
    """Characters that each owner had translated since the server was started; for servers that require no keys."""

    def __init__(self) -> None:
        self._characters: Counter[str] = Counter()

    def add(self, owner: str, characters: int) -> None:
        """Count characters of an owner. The owner that was counted first is forgotten if there are too many."""
        if owner not in self._characters and len(self._characters) >= _COUNTED_OWNERS:
            del self._characters[next(iter(self._characters))]
        self._characters[owner] += characters

    def of(self, owner: str) -> int:
        """Return the characters of an owner."""
        return self._characters[owner]


class Texts:
    """Endpoints for texts.

    Args:
        context: what the interfaces share.
        store: the glossaries.
        counts: the characters of each owner.
    """

    def __init__(self, context: ServerContext, store: GlossaryStore, counts: CharacterCounts) -> None:
        self._context = context
        self._store = store
        self._counts = counts

    async def translate(self, request: Request) -> Response:
        """Translate texts."""
        context = self._context
        call = await read_call(request)
        parameters = call.parameters
        texts = parameters.texts("text")
        characters = sum(map(len, texts))
        with context.access.admit(request, call.key, characters):
            if not texts:
                raise RequestError(400, "the parameter text is missing")
            most = context.limits.texts
            if len(texts) > most:
                raise RequestError(413, f"a request may have at most {most:,} texts, not {len(texts):,}")
            options = text_options(context, parameters)
            model = parameters.optional_text("model_type") and parameters.choice("model_type", *_MODELS)
            parameters.boolean("show_billed_characters")
            await check_glossary(context, self._store, call)
            translated = await context.service.translate(texts, options)
        self._counts.add(call.owner, characters)
        used = {"model_type_used": model.removeprefix("prefer_")} if model else {}
        translations = [
            {
                "detected_source_language": base_code(each.source),
                "text": each.text,
                "billed_characters": len(text),
                **used,
            }
            for text, each in zip(texts, translated, strict=True)
        ]
        return JSONResponse({"translations": translations})

    async def languages(self, request: Request) -> Response:
        """List the source or the target languages."""
        call = await read_call(request)
        self._context.access.admit(request, call.key, 0)
        kind = call.parameters.choice("type", "source", "target")
        list_languages = target_languages if kind == "target" else source_languages
        return JSONResponse(list_languages(self._context.service))

    async def usage(self, request: Request) -> Response:
        """Report the characters of the key: in this month, or since the server was started if keys are not required."""
        call = await read_call(request)
        self._context.access.admit(request, call.key, 0)
        usage = self._context.access.usage(call.key) or Usage(characters=self._counts.of(call.owner), quota=None)
        return JSONResponse({"character_count": usage.characters, "character_limit": usage.quota or _NO_LIMIT})


def text_options(context: ServerContext, parameters: Parameters) -> TextOptions:
    """Return the options of a translation, of texts or of a document.

    Raises:
        RequestError: with status 400 for a parameter that is malformed, or asks for something that is not built.
    """
    formality = parameters.optional_text("formality")
    if formality in ("more", "less"):
        raise RequestError(400, f"formality {formality} is not supported: use prefer_{formality} or default")
    parameters.choice("formality", *_FORMALITY)
    for name in _NOT_BUILT:
        if any(parameters.texts(name)):
            raise RequestError(400, f"the parameter {name} is not supported by this server")
    parameters.boolean("preserve_formatting")
    split_sentences, join_lines = _SPLITTING[parameters.choice("split_sentences", *_SPLITTING)]
    return TextOptions(
        source=find_source(context.service, parameters.optional_text("source_lang")),
        target=find_target(context.service, parameters.text("target_lang")),
        format=text_format(parameters),
        tags=tag_options(parameters),
        split_sentences=split_sentences,
        join_lines=join_lines,
    )
