"""Formulas between dollar signs, as MathML: browsers display it without scripts, fonts or a network."""

import re
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.config.defaults import MkDocsConfig

# $$…$$, which may span lines, or $…$ without space inside its ends, as on code hosts.
FORMULA = r"\$\$(?P<block>[^$]+)\$\$|(?<![\w\\$])\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$(?![\w$])"
# After code in backticks (190), before escapes (180): a formula has backslashes of its own.
PRIORITY = 185
# Environments that latex2mathml does not implement, and equal ones that it does.
ENVIRONMENTS = {"{aligned}": "{align*}", "{gathered}": "{align*}"}
LETTERS = re.compile(r'(?:<mi mathvariant="normal">[A-Za-z]</mi>){2,}')
# A function before an argument without parentheses, as in cos x.
FUNCTION = re.compile(r"(<mi>(?:arg|cos|exp|log|max|min|sin|tanh)</mi>)(?=<m(?:i|n|sub|sup|subsup|row)\b)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Recognize formulas on every page."""
    # Markdown accepts the name of an extension or an extension.
    config.markdown_extensions.append(FormulaExtension())  # type: ignore[arg-type]
    return config


def mathml(formula: str, *, block: bool) -> str:
    """Return a LaTeX formula as a MathML element.

    Raises:
        ValueError: when it cannot be converted.
    """
    latex = formula.strip()
    for environment, equivalent in ENVIRONMENTS.items():
        latex = latex.replace(environment, equivalent)
    try:
        converted = convert(latex, display="block" if block else "inline")
    except Exception as error:
        raise ValueError(f"formula {formula!r}: {error!r}") from error
    # Unknown commands and stray column marks are passed through.
    if "\\" in converted or ">&<" in converted:
        raise ValueError(f"formula {formula!r} has a command that latex2mathml does not know: {converted}")
    # One element for each word, so that "softmax" can be searched and is read as a word.
    converted = LETTERS.sub(lambda word: f"<mi>{re.sub('<[^>]*>', '', word[0])}</mi>", converted)
    return FUNCTION.sub(r'\1<mspace width="0.17em"/>', converted)


class FormulaExtension(Extension):
    """Markdown extension that recognizes formulas."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the pattern."""
        md.inlinePatterns.register(Formula(FORMULA, md), "formula", PRIORITY)


class Formula(InlineProcessor):
    """Replaces a formula by its MathML."""

    def handleMatch(  # type: ignore[override] # its base class returns less than Markdown accepts
        self, m: re.Match[str], data: str
    ) -> tuple[Element | str, int, int]:
        """Return the element, and where the formula begins and ends in `data`."""
        if m["block"] is None:
            element = mathml(m["inline"], block=False)
        else:
            # On a narrow screen, the equations of a line wrap; one that is too wide scrolls.
            equations = "".join(f"<span>{mathml(equation, block=True)}</span>" for equation in split(m["block"]))
            element = f'<span class="formula">{equations}</span>'
        return self.md.htmlStash.store(element), m.start(0), m.end(0)


def split(formula: str) -> list[str]:
    r"""Return the equations of a line: \qquad separates them, and \quad after a comma, unless they are in braces."""
    if r"\begin" in formula:
        return [formula]
    equations, depth = [""], 0
    for part in re.split(r"(\\[{}]|[{}]|\\q?quad\b)", formula):
        if part in ("{", "}"):
            depth += 1 if part == "{" else -1
        after_comma = equations[-1].rstrip().endswith(",")
        if depth == 0 and (part == r"\qquad" or (part == r"\quad" and after_comma)):
            equations.append("")
        else:
            equations[-1] += part
    return [equation for equation in equations if equation.strip()]
