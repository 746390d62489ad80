"""The sources of the site: the project's pages with their links, and the reference.

On GitHub a page links to files of the repository. On the site such a link leads to a page, too:
files that are no pages are shown as pages of their own.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from docs.site import reference
from docs.site.navigation import NAVIGATION, REFERENCE

__all__ = ["llms_full", "llms_index", "sources", "title_of", "write_sources"]

ROOT = reference.ROOT
FENCED = re.compile(r"^(```.*?^```[ ]*$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?\[(?:[^\]`]|`[^`]*`)*\]\()([^)\s]+)(\))")
# The list of words that the search page loads would be too heavy with these.
UNSEARCHED = re.compile(
    r"files/|decisions|CHANGELOG|CONTRIBUTING|architecture|names$|api/index|"
    r"api/upshot\.(contract|flat|models|sim|testing|tools|wire)"
)
LANGUAGES = {".py": "python", ".ts": "typescript", ".json": "json", ".yml": "yaml"}
FIRST = re.compile(r"\A# ([^\n]+)\n+(?:<!--.*?-->\n+)*(.+?)(?=\n\n|\Z)", re.DOTALL)


def _project_pages() -> dict[str, str]:
    """Return the page of each file of the project that is one."""
    found = {"README.md": "index", "CONTRIBUTING.md": "CONTRIBUTING", "CHANGELOG.md": "CHANGELOG"}
    return found | {f"docs/{one.name}": one.stem for one in sorted((ROOT / "docs").glob("*.md"))}


def sources() -> dict[str, str]:
    """Return the Markdown of every page of the site, by its name.

    Raises:
        ValueError: A link of a page leads to a file that does not exist.
    """
    pages = _project_pages()
    texts: dict[str, str] = {}
    shown: dict[str, str] = {}
    for path, page in pages.items():
        text = (ROOT / path).read_text("utf-8")
        texts[page] = _converted(text, path, pages, shown)
    # A shown page may show further files.
    while missing := {path: page for path, page in shown.items() if page not in texts}:
        for path, page in missing.items():
            texts[page] = _shown(path, pages, shown)
    texts["names"] = _with_links_to_names(texts["names"])
    texts["index"] += _tables_of_contents()
    for page in REFERENCE:
        texts[f"api/{page}"] = reference.topic_page(page)
    texts["api/index"] = reference.index_page()
    texts["api/commands"] = reference.commands_page()
    return texts


def _converted(text: str, path: str, pages: dict[str, str], shown: dict[str, str]) -> str:
    """A page of the project with links as the site has them."""

    def link(found: re.Match[str]) -> str:
        return found[1] + _target(found[2], path, pages, shown) + found[3]

    parts = FENCED.split(text)
    for at, part in enumerate(parts):
        # What `upshot graph` prints: GitHub draws it, the site shows its text.
        parts[at] = part.replace("```mermaid", "```text", 1) if at % 2 else LINK.sub(link, part)
    return "".join(parts)


def _target(target: str, path: str, pages: dict[str, str], shown: dict[str, str]) -> str:
    """Where a link of the file *path* leads on the site."""
    place, mark, anchor = target.partition("#")
    if "://" in target or not place:
        return target
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), place))
    if goal.startswith("docs/pictures/"):
        return goal.removeprefix("docs/")
    if not (ROOT / goal).exists():
        raise ValueError(f"{path} links to {target}, which does not exist")
    if goal not in pages:
        shown.setdefault(goal, "files/" + re.sub(r"[/.]", "-", goal))
    page = pages.get(goal) or shown[goal]
    own = pages.get(path) or shown[path]
    return posixpath.relpath(page, posixpath.dirname(own) or ".") + ".md" + mark + anchor


def _shown(path: str, pages: dict[str, str], shown: dict[str, str]) -> str:
    """A page that shows a file or a folder of the repository."""
    place = ROOT / path
    if place.suffix == ".md":
        return _converted(place.read_text("utf-8"), path, pages, shown)
    if place.is_dir():
        files = sorted(one for one in place.iterdir() if one.is_file())
        rows = "\n".join(f"- `{path}/{one.name}`" for one in files)
        return f"# {path}\n\nFiles of the repository:\n\n{rows}\n"
    language = LANGUAGES.get(place.suffix, "text")
    return f"# {path}\n\n````{language}\n{place.read_text('utf-8')}````\n"


def _with_links_to_names(text: str) -> str:
    """The page of all names, where each leads to its place in the reference."""

    def row(found: re.Match[str]) -> str:
        page, anchor = reference.home_of()[found[1]]
        return f"| [`{found[1]}`](api/{page}.md#{anchor}) |"

    return re.sub(r"^\| `(\w+)` \|", row, text, flags=re.MULTILINE)


def _tables_of_contents() -> str:
    parts = [""]
    for caption, names in NAVIGATION.items():
        rows = "\n".join("Why upshot <self>" if name == "index" else name for name in names)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{rows}\n```")
    return "\n\n".join(parts) + "\n"


def write_sources(folder: Path) -> dict[str, str]:
    """Write all pages and pictures into an empty *folder*; return the pages."""
    texts = sources()
    for name, text in texts.items():
        place = folder / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        marks = "orphan: true\n" * name.startswith("files/")
        marks += "nosearch: true\n" * bool(UNSEARCHED.match(name))
        place.write_text(f"---\n{marks}---\n{text}" if marks else text, "utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    return texts


def title_of(text: str) -> tuple[str, str]:
    """Return the heading of a page, and its first sentence in plain words."""
    found = FIRST.search(text)
    if found is None:
        raise ValueError(f"a page must begin with a heading and a paragraph: {text[:60]!r}")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(found[2].split()))
    plain = plain.removeprefix("You get: ").rstrip(":")
    first = re.match(r".*?\.(?= |$)", plain)
    said = first[0] if first else f"{plain}."
    return found[1], said[0].upper() + said[1:]


def _in_order() -> Iterator[tuple[str, list[str]]]:
    for caption, names in NAVIGATION.items():
        yield caption, [one for one in names if one != "api/index"]
    yield "API reference", [f"api/{one}" for one in (*REFERENCE, "commands")]


def llms_index(texts: dict[str, str]) -> str:
    """Return ``llms.txt``: what upshot is, and a line for each page."""
    title, first = title_of(texts["index"])
    parts = [f"# {title}\n\n> {first}\n"]
    for caption, names in _in_order():
        heads = {name: title_of(texts[name]) for name in names}
        rows = (f"- [{title}]({name}.md): {about}\n" for name, (title, about) in heads.items())
        parts.append(f"## {caption}\n\n{''.join(rows)}")
    return "\n".join(parts)


def llms_full(texts: dict[str, str]) -> str:
    """Return ``llms-full.txt``: the guides and the reference in one text."""
    left_out = ("CHANGELOG", "CONTRIBUTING", "decisions", "architecture")
    names = [one for _, group in _in_order() for one in group if not one.startswith(left_out)]
    return "\n\n".join(texts[name].partition("\n```{toctree}")[0].strip() for name in names) + "\n"
