"""Codes of languages in DeepL's interface: upper case, with variants of English and Portuguese as targets."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.errors import quoted
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.languages import name_of
from dragoman.serving.texts.service import AUTO, TranslationService

# A target language that the server has without a variant is listed under these names; one model translates into all.
_VARIANTS = {
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
}


def pairs(service: TranslationService) -> list[Pair]:
    """Return the pairs of languages that the server translates, also through a third one, sorted."""
    return sorted((language.code, target) for language in service.languages() for target in language.targets)


def source_languages(service: TranslationService) -> list[dict[str, object]]:
    """Return the source languages as DeepL lists them."""
    return [{"language": language.code.upper(), "name": language.name} for language in service.languages()]


def target_languages(service: TranslationService) -> list[dict[str, object]]:
    """Return the target languages as DeepL lists them, with variants."""
    return [
        {"language": code, "name": name, "supports_formality": False}
        for target in sorted({target for _, target in pairs(service)})
        for code, name in _VARIANTS.get(target, ((target.upper(), name_of(target)),))
    ]


def find_source(service: TranslationService, code: str | None) -> str:
    """Return the server's code of a source language; "auto" for None.

    Raises:
        RequestError: with status 400 if the server does not have it.
    """
    return AUTO if code is None else _find("source_lang", code, {source for source, _ in pairs(service)})


def find_target(service: TranslationService, code: str) -> str:
    """Return the server's code of a target language.

    Raises:
        RequestError: with status 400 if the server does not have it.
    """
    return _find("target_lang", code, {target for _, target in pairs(service)})


def find_pair(service: TranslationService, source: str, target: str) -> Pair:
    """Return the server's codes of a pair of languages.

    Raises:
        RequestError: with status 400 if the server does not translate between them.
    """
    pair = (find_source(service, source), find_target(service, target))
    if pair not in pairs(service):
        raise RequestError(400, f"the languages {source} to {target} are not supported")
    return pair


def _find(name: str, code: str, codes: Iterable[str]) -> str:
    by_code = {known.upper(): known for known in codes}
    code = code.upper().replace("_", "-")
    base = code.split("-")[0]
    if code in by_code:
        return by_code[code]
    if base in by_code and code in (variant for variant, _ in _VARIANTS.get(base.lower(), ())):
        return by_code[base]
    raise RequestError(400, f"{name} {quoted(code)} is not supported; supported: {', '.join(sorted(by_code))}")
