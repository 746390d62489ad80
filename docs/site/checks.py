"""Checks of a built site: every link leads somewhere, and no page is heavy."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["MOST_BYTES", "PICTURES", "faults_of", "weight_of"]

# Of a page with its scripts, stylesheets and data, but without pictures; not compressed.
MOST_BYTES = 300_000
PICTURES = (".png", ".svg", ".ico")

# What a browser loads by itself, by tag.
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
# Relations of <link> that a browser does not load.
NAMED = {"canonical", "author", "index", "search", "next", "prev", "genindex"}


@dataclass
class _Page(HTMLParser):
    """The anchors and links of a page."""

    anchors: set[str] = field(default_factory=set[str])
    links: list[str] = field(default_factory=list[str])
    loads: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and given.get(LOADED[tag]):
            if given.get("rel", "") not in NAMED:
                self.loads.append(given[LOADED[tag]])
            self.links.append(given[LOADED[tag]])


def faults_of(site: Path) -> list[str]:
    """Return each broken link, each file of another host that a page loads, and heavy pages.

    Args:
        site: The folder of a built site.
    """
    paths = sorted(site.rglob("*.html"))
    pages = {path.relative_to(site).as_posix(): _read(path) for path in paths}
    faults: list[str] = []
    for name, page in pages.items():
        if (weight := _weight(site, name, page)) > MOST_BYTES:
            faults.append(f"{name} weighs {weight} bytes, more than {MOST_BYTES}")
        for target in dict.fromkeys(page.loads):
            if urlsplit(target).netloc:
                faults.append(f"{name} loads {target}")
        for target in dict.fromkeys(page.links):
            fault = _fault_of(name, target, pages, site)
            faults += [f"{name} links to {target}: {fault}"] if fault else []
    return faults


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def weight_of(site: Path, name: str) -> int:
    """Return the bytes that a browser loads for a page, without pictures."""
    return _weight(site, name, _read(site / name))


def _weight(site: Path, name: str, page: _Page) -> int:
    paths = {
        posixpath.normpath(posixpath.join(posixpath.dirname(name), urlsplit(one).path))
        for one in page.loads
        if not urlsplit(one).netloc
    }
    files = [site / name, *(site / one for one in paths if not one.endswith(PICTURES))]
    return sum(one.stat().st_size for one in files if one.is_file())


def _fault_of(name: str, target: str, pages: dict[str, _Page], site: Path) -> str:
    """What is wrong with a link; "" for nothing."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
    goal = path if parts.path else name
    if path.startswith("..") or not (site / goal).is_file():
        return "no such page"
    anchor = unquote(parts.fragment)
    if anchor and goal in pages and anchor not in pages[goal].anchors:
        return "no such anchor"
    return ""
