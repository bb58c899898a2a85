"""Languages: their names, and which models lead from one to another."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.serving.language_codes import base_of, less_and_less_specific, matching_codes
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError

# Names in English of the languages of ISO 639-1 that models are trained for, and of the variants that clients send.
_NAMES = """
af Afrikaans|am Amharic|an Aragonese|ar Arabic|as Assamese|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali
bo Tibetan|br Breton|bs Bosnian|ca Catalan|ce Chechen|co Corsican|cs Czech|cv Chuvash|cy Welsh|da Danish|de German
dv Divehi|dz Dzongkha|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|fi Finnish
fo Faroese|fr French|fy Western Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gn Guarani|gu Gujarati|gv Manx
ha Hausa|he Hebrew|hi Hindi|hr Croatian|ht Haitian Creole|hu Hungarian|hy Armenian|ia Interlingua|id Indonesian
ie Interlingue|ig Igbo|io Ido|is Icelandic|it Italian|ja Japanese|jv Javanese|ka Georgian|kk Kazakh|kl Kalaallisut
km Khmer|kn Kannada|ko Korean|ks Kashmiri|ku Kurdish|kw Cornish|ky Kyrgyz|la Latin|lb Luxembourgish|lg Ganda
li Limburgish|ln Lingala|lo Lao|lt Lithuanian|lv Latvian|mg Malagasy|mi Maori|mk Macedonian|ml Malayalam|mn Mongolian
mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|ne Nepali|nl Dutch|nn Norwegian Nynorsk|no Norwegian
ny Nyanja|oc Occitan|om Oromo|or Odia|os Ossetic|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|qu Quechua|rm Romansh
rn Rundi|ro Romanian|ru Russian|rw Kinyarwanda|sa Sanskrit|sc Sardinian|sd Sindhi|se Northern Sami|sg Sango|si Sinhala
sk Slovak|sl Slovenian|sm Samoan|sn Shona|so Somali|sq Albanian|sr Serbian|ss Swati|st Southern Sotho|su Sundanese
sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tn Tswana|to Tongan
tr Turkish|ts Tsonga|tt Tatar|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|ve Venda|vi Vietnamese|wa Walloon|wo Wolof
xh Xhosa|yi Yiddish|yo Yoruba|za Zhuang|zh Chinese|zu Zulu
zh-Hans Chinese (simplified)|zh-Hant Chinese (traditional)|zt Chinese (traditional)|pb Portuguese (Brazil)
en-US English (American)|en-GB English (British)|pt-BR Portuguese (Brazil)|pt-PT Portuguese (Portugal)
""".strip().replace("\n", "|")
NAMES = {code: name for code, _, name in (entry.partition(" ") for entry in _NAMES.split("|"))}


def name_of(code: str) -> str:
    """Return the name of a language in English: that of its base language if the variant has none, else the code."""
    return next((NAMES[general] for general in less_and_less_specific(code) if general in NAMES), code)


class LanguagePairs:
    """The language pairs of a server, and the way from one language to another.

    Args:
        pairs: the pairs for which there is a model.
    """

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._pairs = frozenset(pairs)
        self.sources = tuple(sorted({source for source, _ in self._pairs}))
        self.codes = tuple(sorted({code for pair in self._pairs for code in pair}))

    def targets(self, source: str) -> tuple[str, ...]:
        """Return the languages into which a language of the server can be translated, in alphabetical order."""
        return tuple(code for code in self.codes if code != source and self._way(source, code))

    def matching(self, code: str) -> list[str]:
        """Return the languages of the server that a code may mean, best first, see `matching_codes`."""
        return matching_codes(code, self.codes)

    def route(self, source: str, target: str) -> list[Pair]:
        """Return the pairs that lead from one language to another: none if they are the same, at most two.

        A route of one pair is preferred to one of two; a route through English to one through another language; and
        an exact code to a variant.

        Raises:
            RequestError: with status 400 if the server does not have a language, or no route between them.
        """
        sources, targets = self.matching(source), self.matching(target)
        for code, matches in ((source, sources), (target, targets)):
            if not matches:
                raise RequestError(400, f"{code} is not supported; the languages are {', '.join(self.codes)}")
        if sources[0] == targets[0]:
            return []
        ways = [self._way(own, other) for own in sources for other in targets if own != other]
        best = min((way for way in ways if way), key=len, default=None)
        if best is None:
            raise RequestError(
                400,
                f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)} ({source})",
            )
        return best

    def _way(self, source: str, target: str) -> list[Pair]:
        """Return the pairs from one language of the server to another; an empty list if there is no way."""
        if (source, target) in self._pairs:
            return [(source, target)]
        between = [
            code
            for code in self.codes
            if code not in (source, target) and (source, code) in self._pairs and (code, target) in self._pairs
        ]
        if not between:
            return []
        third = min(between, key=lambda code: (base_of(code) != "en", code))
        return [(source, third), (third, target)]
