"""Codes of languages: their usual form, and what a code of a client can mean."""

from __future__ import annotations

from collections.abc import Iterable

# Languages that have two codes: "no" is used for Bokmål, too.
_ALIASES = {"nb": "no", "no": "nb"}
# Languages whose variants are close enough that each can take the place of another.
_CLOSE_VARIANTS = ("en", "pt")


def base_of(code: str) -> str:
    """Return the language of a code without script and region, in lower case: "pt" for "pt-BR"."""
    return normalized(code).partition("-")[0]


def normalized(code: str) -> str:
    """Return a code in the case that BCP 47 recommends, with hyphens: "pt-BR" for "PT_br", "zh-Hans" for "ZH-HANS"."""
    first, *others = code.replace("_", "-").split("-")
    cased = [part.upper() if len(part) == 2 else part.title() if len(part) == 4 else part.lower() for part in others]
    return "-".join([first.lower(), *cased])


def less_and_less_specific(code: str) -> list[str]:
    """Return a code, then the code without its last subtag, and so on (RFC 4647, section 3.4, "Lookup")."""
    parts = normalized(code).split("-")
    return ["-".join(parts[:end]) for end in range(len(parts), 0, -1)]


def matching_codes(code: str, codes: Iterable[str]) -> list[str]:
    """Return those of the codes of a server that a code of a client may mean, best first.

    First the code itself, then the code without its last subtags ("en" for "en-US"), then the variants of the
    language ("pt-BR" for "pt"); for English and Portuguese, its other variants, too ("pt-BR" for "pt-PT"). "nb" and
    "no" are one language.
    """
    by_name = {normalized(own): own for own in codes}
    general = less_and_less_specific(code)
    base = general[-1]
    widest = base if base in _CLOSE_VARIANTS else general[0]
    other = [_ALIASES[base]] if base in _ALIASES else []
    variants = [own for own in sorted(by_name) if own not in general and own.startswith(f"{widest}-")]
    return [by_name[own] for own in [*general, *other, *variants] if own in by_name]
