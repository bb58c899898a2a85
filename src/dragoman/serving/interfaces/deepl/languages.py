"""Codes of languages in DeepL's interface.

They are in upper case. Sources, and the languages of glossaries, have no variants; targets are variants of English and
Portuguese. A code of a client is matched with those of the server by `matching_codes`.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.errors import quoted
from dragoman.serving.language_codes import base_of, matching_codes, normalized
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.languages import name_of
from dragoman.serving.texts.service import AUTO, TranslationService

# A target language that the server has without a variant is listed under these names; one model translates into all.
_VARIANTS = {
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
}
_NAMES = dict(variant for variants in _VARIANTS.values() for variant in variants)
# DeepL's code of Norwegian.
_OTHER_BASES = {"no": "nb"}


def pairs(service: TranslationService) -> list[Pair]:
    """Return the pairs of languages that the server translates, also through a third one, sorted."""
    return sorted((language.code, target) for language in service.languages() for target in language.targets)


def base_code(code: str) -> str:
    """Return DeepL's code of a source language or of a language of a glossary, in upper case: "PT" for "pt-BR"."""
    base = base_of(code)
    return _OTHER_BASES.get(base, base).upper()


def base_pair(pair: Pair) -> Pair:
    """Return the codes of the languages of a glossary, in lower case."""
    source, target = pair
    return base_code(source).lower(), base_code(target).lower()


def source_languages(service: TranslationService) -> list[dict[str, object]]:
    """Return the source languages as DeepL lists them."""
    codes = {base_code(language.code) for language in service.languages()}
    return [{"language": code, "name": name_of(code)} for code in sorted(codes)]


def target_languages(service: TranslationService) -> list[dict[str, object]]:
    """Return the target languages as DeepL lists them, with variants."""
    names: dict[str, str] = {}
    for target in sorted({target for _, target in pairs(service)}):
        code = _target_code(target)
        names.update(_VARIANTS.get(target, ((code, _NAMES.get(code, name_of(target))),)))
    return [{"language": code, "name": names[code], "supports_formality": False} for code in sorted(names)]


def find_source(service: TranslationService, code: str | None) -> str:
    """Return the server's code of a source language; "auto" for None.

    Raises:
        RequestError: with status 400 if the server does not have it.
    """
    return AUTO if code is None else _sources(service, code)[0]


def find_target(service: TranslationService, code: str) -> str:
    """Return the server's code of a target language.

    Raises:
        RequestError: with status 400 if the server does not have it.
    """
    return _targets(service, code)[0]


def find_pair(service: TranslationService, source: str, target: str) -> Pair:
    """Return the server's codes of a pair of languages.

    Raises:
        RequestError: with status 400 if the server does not translate between them.
    """
    targets = _targets(service, target)
    possible = [(own, other) for own in _sources(service, source) for other in targets]
    known = pairs(service)
    for pair in possible:
        if pair in known:
            return pair
    raise RequestError(400, f"the languages {source} to {target} are not supported")


def _sources(service: TranslationService, code: str) -> list[str]:
    return _matching("source_lang", code, {source for source, _ in pairs(service)})


def _targets(service: TranslationService, code: str) -> list[str]:
    return _matching("target_lang", code, {target for _, target in pairs(service)})


def _matching(name: str, code: str, codes: Iterable[str]) -> list[str]:
    matching = matching_codes(code, codes)
    if not matching:
        supported = ", ".join(sorted({_target_code(own) for own in codes}))
        raise RequestError(400, f"{name} {quoted(code.upper())} is not supported; supported: {supported}")
    return matching


def _target_code(code: str) -> str:
    code = normalized(code)
    return _OTHER_BASES.get(code, code).upper()
