"""Examples at the end of each verb's --help."""

from typing import NamedTuple


class Example(NamedTuple):
    """One command with its purpose."""

    purpose: str
    command: str


def examples_text(examples: tuple[Example, ...]) -> str:
    """Return the examples as the last lines of a help text."""
    return "\n".join(["Examples:", *(f"  # {example.purpose}\n  {example.command}" for example in examples)])
