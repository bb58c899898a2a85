"""Weblate's machinery for DeepL and LibreTranslate, unmodified, against a server of English to German.

Run it with a Python that has Weblate (which needs Django and much else, so it is no dependency of the tests):

    dragoman serve MODEL --port 8500
    python benchmarks/serving_weblate.py --url http://127.0.0.1:8500

The database and the drawing of fonts are not used: the database is empty, and cairo may be missing. The glossary that
Weblate would read from its database is given. Each call is checked; the first that fails ends the program. For
LibreTranslate, Weblate writes placeholders into the text ("[X6X]"), which the model may change: those kept are counted.
"""

import argparse
import importlib.metadata
import json
import platform
import sys
import tempfile
from unittest.mock import MagicMock, patch

import django
from django.conf import settings

_APPS = (
    "addons auth checks formats glossary machinery trans lang memory screenshots fonts accounts configuration utils "
    "vcs wladmin metrics gitexport api"
)
_OTHER_APPS = (
    *("django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.admin"),
    *("django.contrib.messages", "social_django", "django_otp", "django_otp.plugins.otp_static"),
    *("django_otp.plugins.otp_totp", "django_otp_webauthn", "crispy_forms", "rest_framework"),
    *("rest_framework.authtoken", "django_celery_beat", "compressor"),
)
# What Weblate must give back as it is: placeholders of two kinds, markup and characters that XML escapes.
TEXTS = {
    "Turn off the light in the kitchen.": [],
    "Hello {name}, you have {count} new messages.": ["{name}", "{count}"],
    "The file %(file)s is larger than %(size)d MB.": ["%(file)s", "%(size)d"],
    "Fish & chips cost < 10 euros.": [],
    'Press "OK" & then <b>Continue</b>.': [],
    "Line one.\nLine two.": ["\n"],
}


def set_up(data: str) -> None:
    """Prepare Django for Weblate's classes, without a database."""
    for name in ("cairo", "gi", "gi.repository"):
        sys.modules[name] = MagicMock()
    settings.configure(
        INSTALLED_APPS=[f"weblate.{name}" for name in _APPS.split()] + list(_OTHER_APPS),
        SECRET_KEY="k",
        USE_I18N=False,
        USE_TZ=True,
        SITE_DOMAIN="localhost",
        SITE_TITLE="Weblate",
        STATIC_URL="/static/",
        STATIC_ROOT=data,
        DATA_DIR=data,
        CACHE_DIR=data,
        AUTH_USER_MODEL="weblate_auth.User",
        AUTOFIX_LIST=(),
        CHECK_LIST=(
            "weblate.checks.format.PythonFormatCheck",
            "weblate.checks.format.PythonBraceFormatCheck",
            "weblate.checks.markup.XMLTagsCheck",
        ),
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    )
    django.setup()


def main() -> None:
    """Run the calls and print what came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="address of the server")
    parser.add_argument("--key", default="", help="API key, if the server has keys")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        set_up(data)
        with patch("weblate.glossary.models.get_glossary_tsv", return_value="light\tLicht\nkitchen\tKüche\n"):
            rows, kept = calls(arguments.url.rstrip("/"), arguments.key)
    weblate = importlib.metadata.version("weblate")
    print(f"Python {platform.python_version()}, Weblate {weblate}, Django {django.__version__}")
    print("\n| machinery | call | result |\n|---|---|---|")
    for machinery, call, result in rows:
        print(f"| {machinery} | {call} | {result} |")
    print(json.dumps({"placeholders_kept": round(kept, 3), "calls_as_expected": len(rows)}))


def calls(url: str, key: str) -> tuple[list[tuple[str, str, str]], float]:
    """Return the machinery, the call and the result of each call, and the share of the placeholders that are kept.

    Raises:
        AssertionError: if a result is not as expected.
    """
    from weblate.checks.tests.test_checks import MockUnit
    from weblate.machinery.base import MachineTranslationError
    from weblate.machinery.deepl import DeepLTranslation
    from weblate.machinery.libretranslate import LibreTranslateTranslation

    rows = []
    placeholders = [0, 0]
    for kind, path, key_of in ((DeepLTranslation, "/v2", key or "any"), (LibreTranslateTranslation, "", key)):
        machine = kind({"url": url + path, "key": key_of, "formality": "default", "next_gen": True})

        def report(call: str, result: object, name: str = kind.__name__) -> None:
            rows.append((name, call, str(result).replace("\n", "⏎").replace("|", "\\|")))

        machine.validate_settings()
        report("validate_settings", "accepted")
        english, german = ((next(machine.get_language_possibilities(MagicMock(code=code)))) for code in ("en", "de"))
        assert machine.is_supported(english, german)
        assert not machine.is_supported(english, "xx")
        report("is_supported", f"{english} to {german}: yes, to xx: no")
        units = [
            (text, MockUnit(source=text, flags="python-format,python-brace-format,xml-text", code="de"))
            for text in TEXTS
        ]
        output = machine._translate(english, german, units)
        for text, kept in TEXTS.items():
            [result] = output[text]
            assert result["source"] == text, result
            assert "<x " not in result["text"], result
            found = sum(part in result["text"] for part in kept)
            # As XML, they are tags, which the server keeps.
            assert found == len(kept) or kind is LibreTranslateTranslation, result
            placeholders[0] += found
            placeholders[1] += len(kept)
            report(text.replace("\n", "⏎"), result["text"])
        if kind is DeepLTranslation:
            assert len(machine.get_glossaries(use_cache=False)) == 1
            report("get_glossary_id", "a glossary was stored")
            machine.delete_oldest_glossary()
            assert not machine.get_glossaries(use_cache=False)
            report("delete_oldest_glossary", "no glossary is left")
        refusal = ""
        try:
            machine._translate(english, "xx", [("Hello", units[0][1])])
        except MachineTranslationError as error:
            refusal = str(error)
        assert "not supported" in refusal, refusal
        report("a language that is not there", refusal)
    return rows, placeholders[0] / placeholders[1]


if __name__ == "__main__":
    main()
