"""The sources of the documentation site, and the checks of what ``make docs`` builds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import upshot
from docs.site import checks, pages, reference
from docs.site.navigation import NAVIGATION
from tests.docs.test_pages import PAGES


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The Markdown of every page, by name."""
    return pages.sources()


def test_every_page_has_one_place_in_the_order() -> None:
    placed = [name for names in NAVIGATION.values() for name in names]
    written = {"index" if page.stem == "README" else page.stem for page in PAGES}
    assert sorted(placed) == sorted(written | {"api/index", "CONTRIBUTING", "CHANGELOG"})


@pytest.mark.slow
def test_every_public_name_has_its_anchor_in_the_reference(texts: dict[str, str]) -> None:
    headings = {
        heading
        for name, text in texts.items()
        if name.startswith("api/")
        for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)
    }
    assert {f"upshot.{name}" for name in upshot.__all__} <= headings
    assert {"upshot.guard.guard", "upshot.testing.FakeClock", "upshot run"} <= headings


@pytest.mark.slow
def test_an_entry_has_signature_types_and_links(texts: dict[str, str]) -> None:
    entry = texts["api/running"].partition("## upshot.resume\n")[2].partition("\n## ")[0]
    assert "async def resume(\n    run_id: str,\n" in entry
    assert "    budget: Budget | None = ...,\n" in entry and ") -> AgentResult[T]" in entry
    assert "[`Misuse`](errors.md#upshot.Misuse)" in entry
    error = texts["api/results"].partition("## upshot.AgentError\n")[2].partition("\n## ")[0]
    assert "- `status_code` (`int | None = None`): The HTTP status" in error


def test_the_anchor_of_a_heading_is_that_of_github_or_the_name() -> None:
    assert reference.slug_of("What it is given, and how it fails") == (
        "what-it-is-given-and-how-it-fails"
    )
    assert reference.slug_of("upshot.AgentResult") == "upshot.AgentResult"


@pytest.mark.slow
def test_a_link_to_a_file_of_the_repository_leads_to_a_page_that_shows_it(
    texts: dict[str, str],
) -> None:
    assert "](files/examples-gateway-README-md.md)" in texts["index"]
    assert "](effects.md)" in texts["index"] and "](docs/" not in texts["index"]
    assert "````python\n" in texts["files/examples-chat-chat-py"]


@pytest.mark.slow
def test_every_page_has_a_line_in_the_list_for_language_models(texts: dict[str, str]) -> None:
    index = pages.llms_index(texts)
    lines = re.findall(r"^- \[[^\]]+\]\(([\w./-]+)\.md\): [A-Z0-9`].+\.$", index, re.MULTILINE)
    assert {name for name in texts if not re.search(r"^files/|api/index", name)} == set(lines)


def write(site: Path, name: str, body: str) -> None:
    (site / name).write_text(f"<html><body>{body}</body></html>", "utf-8")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="other.html#there">ok</a>', ""),
        ('<a href="https://example.com/x">ok</a>', ""),
        ('<a href="gone.html">no</a>', "index.html links to gone.html: no such page"),
        ('<a href="other.html#no">no</a>', "index.html links to other.html#no: no such anchor"),
        ('<a href="#no">no</a>', "index.html links to #no: no such anchor"),
        ('<img src="gone.png">', "index.html links to gone.png: no such page"),
        ('<script src="https://cdn.example/x.js"></script>', "index.html loads https://cdn"),
        ("x" * checks.MOST_BYTES, "index.html weighs 300026 bytes"),
    ],
)
def test_the_check_of_a_built_site_finds_a_fault(tmp_path: Path, body: str, fault: str) -> None:
    write(tmp_path, "index.html", body)
    write(tmp_path, "other.html", '<h2 id="there">There</h2>')
    found = checks.faults_of(tmp_path)
    assert len(found) == bool(fault)
    assert not found or found[0].startswith(fault)


def test_the_weight_of_a_page_has_its_scripts_but_no_pictures(tmp_path: Path) -> None:
    write(tmp_path, "index.html", '<script src="a.js?v=1"></script><img src="b.png">')
    (tmp_path / "a.js").write_bytes(b"/" * 1000)
    (tmp_path / "b.png").write_bytes(b"/" * 5000)
    page = (tmp_path / "index.html").stat().st_size
    assert checks.weight_of(tmp_path, "index.html") == page + 1000
