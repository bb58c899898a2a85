"""Escaping of untrusted text: control characters are shown, and never interpreted by the terminal."""

import pytest

from dragoman.printing import print_message, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a name.tsv", "a name.tsv"),
        ("forged\ndragoman: all is well", "forged\\ndragoman: all is well"),
        ("\x1b[31mred\x1b[0m\x07\r\t\x7f\x9b31m", "\\x1b[31mred\\x1b[0m\\x07\\r\\t\\x7f\\x9b31m"),
        ("one\u2028two\u2029three\x85four", "one\\u2028two\\u2029three\\x85four"),
        ("\u202egnp.exe\u2066\u200e\ufeff", "\\u202egnp.exe\\u2066\\u200e\\ufeff"),
        ("not UTF-8: \udcff", "not UTF-8: \\udcff"),
        ("\U000e0041", "\\U000e0041"),
        # Format characters and spaces that ordinary text needs.
        ("à 10\u202f000\u00a0€, 表\u3000格, می\u200cخواهم, 👨\u200d👩, ä\u0301", None),
    ],
)
def test_text_is_shown_on_one_line_and_cannot_control_the_terminal(text: str, expected: str | None) -> None:
    assert printable(text) == (text if expected is None else expected)


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(ValueError("a\nb [red]c[/red]"))
    assert capsys.readouterr().err == "dragoman: a\\nb [red]c[/red]\n"
