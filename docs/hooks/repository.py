"""Pages from files outside docs/, and links between files of the repository as links between pages.

Every document is written for two readers: on a code host, where a link names a file, and on the site, where it names a
page. The files hold the former; this hook derives the latter.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.hooks.repository")
ROOT = Path(__file__).parents[2]
# Files of the repository that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "results.md",
    "recipes/README.md": "recipes.md",
    "docs": "index.md",
    "recipes": "recipes.md",
    "docs/decisions": "decisions/index.md",
}
# Of these, SECURITY.md only refers to docs/security.md.
COPIED = [name for name in PAGES if name.endswith(".md") and name != "SECURITY.md"]
SOURCES = {page: name for name, page in PAGES.items() if name in COPIED}

# Blocks of code, and paragraphs: a link may continue on the next line, but not beyond a blank one.
BLOCK = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?^ {0,3}(?P=fence)|(?:^(?: {4}|\t)[^\n]*\n?)+|\n\n", re.MULTILINE | re.DOTALL
)
CODE = r"`[^`]*`"
IMAGE = r"!\[[^]]*\]\([^)]*\)"
CODE_OR_LINK = re.compile(rf"{CODE}|(?P<image>!?)\[(?P<text>(?:[^][`]|{CODE}|{IMAGE})*)\]\((?P<target>[^()\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every decision record to the navigation."""
    records = sorted(f"decisions/{path.name}" for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    for section in config.nav or []:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict) and "Decisions" in entry:
                entry["Decisions"] = ["decisions/index.md", *records]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are files elsewhere in the repository."""
    for name in COPIED:
        text = (ROOT / name).read_text(encoding="utf-8")
        if name == "recipes/README.md":
            text += recipes()
        files.append(File.generated(config, PAGES[name], content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to pages."""
    uri = page.file.src_uri
    name = SOURCES.get(uri, f"docs/{uri}")
    parts, end = [], 0
    for block in BLOCK.finditer(markdown):
        text = markdown[end : block.start()]
        parts += [CODE_OR_LINK.sub(lambda match: translate(match, name, uri), text), block[0]]
        end = block.end()
    parts.append(CODE_OR_LINK.sub(lambda match: translate(match, name, uri), markdown[end:]))
    return "".join(parts)


def translate(match: re.Match[str], name: str, uri: str) -> str:
    """Return a link of the file `name` as a link of the page `uri`.

    Code and links to other sites are returned unchanged. A file that is not a page of the site is named without a link;
    one that does not exist is a warning.
    """
    target = match["target"]
    if target is None or re.match(r"[a-z]+:|#|/", target):
        return match[0]
    path, hash_sign, fragment = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    if path.startswith("recipes/") and path.endswith(".toml"):
        destination, hash_sign, fragment = "recipes.md", "#", anchor(posixpath.basename(path))
    elif path in PAGES:
        destination = PAGES[path]
    elif path.startswith("docs/") and not path.endswith(".py"):
        destination = path.removeprefix("docs/")
    else:
        if not (ROOT / path).exists():
            LOG.warning("%s links to %s, which does not exist", name, target)
        return match["text"]
    relative = posixpath.relpath(destination, posixpath.dirname(uri) or ".")
    text = CODE_OR_LINK.sub(lambda inner: translate(inner, name, uri), match["text"])
    return f"{match['image']}[{text}]({relative}{hash_sign}{fragment})"


def recipes() -> str:
    """Return the run files themselves, as sections."""
    sections = []
    for path in sorted((ROOT / "recipes").glob("*.toml")):
        text = path.read_text(encoding="utf-8").rstrip()
        sections.append(f"\n## {path.name} {{#{anchor(path.name)}}}\n\n```toml\n{text}\n```\n")
    return "".join(sections)


def anchor(file_name: str) -> str:
    """Return the identifier of a recipe's section."""
    return file_name.removesuffix(".toml")
