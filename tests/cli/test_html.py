"""upshot show --html: the page of a run in one file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Command
from tests.state.test_run_view import logged, viewed
from upshot import Agent, ModelResponse, Request, ScriptedModel, ToolCall, run_sync, tool
from upshot.state.cause import Cause
from upshot.state.run_page import PARTS, PublicViewer, run_page
from upshot.state.run_view import Head, Row, RunView, Said

EVIL = '</title><script>alert(1)</script><img src=x onerror="a()">\u202eabc\x1b[2J\u200b'
SECRET = "sk-verysecretvalue"


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}
        assert not any("javascript:" in (value or "") for _, value in attrs)


def body_of(page: str) -> str:
    return page.partition("<body>")[2]


def words_in(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


@given(st.text() | st.just(EVIL))
def test_no_text_of_a_run_becomes_a_tag_or_hides_itself(text: str) -> None:
    row = Row(id=0, kind="tool", name=text, detail=text, word=text, gate=text, child=text)
    call = {"id": text, "name": text, "arguments": {text: text}}
    said = Said(id=0, seq=1, role="assistant", text=text, calls=(call,))  # pyright: ignore[reportArgumentType]
    facts: Any = {"agent": text, "run_id": text, "request": text, "answer": text, "model": text}
    head = Head(**facts, cause=Cause(says=text), sessions=1)
    page = run_page(RunView(head=head, rows=(row,), messages=(said,), text=text))
    plain = words_in(run_page(RunView(head=Head(agent="a"), rows=(row,), messages=(said,))))
    tags = words_in(page)
    assert not tags.found & {"script", "img", "link", "iframe", "base"}
    assert not any(name.startswith("on") for name in tags.attributes | plain.attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069]", page)
    page.encode()


async def test_the_page_has_the_facts_the_steps_and_the_transcript() -> None:
    page = run_page(viewed(await logged()).view())
    for shown in (
        "My money?",
        "refund",
        "approved by sam",
        "I look.",
        "effect applied",
        "Done.",
        "It completed",
    ):
        assert shown in page, shown
    assert "http" not in page.replace("http-equiv", "")


async def test_parts_are_left_out_and_what_it_came_to_stays() -> None:
    view = viewed(await logged()).view()
    page = body_of(run_page(view, without=PARTS))
    for content in ("My money?", "I look.", "Done.", "Paid.", "order", "there is none", "refunded"):
        assert content not in page, content
    for kept in ("refund", "look", "effect applied", "approved by sam", "Left out: arguments, re"):
        assert kept in page, kept
    assert "Paid." in run_page(view, without=["text", "arguments"])
    assert "My money?" in run_page(view, without=["results"])
    assert "&quot;order&quot;" in run_page(view, without=["text", "results"])


async def test_the_public_page_has_what_strangers_may_see() -> None:
    viewer = PublicViewer({"look": "Looking it up"})
    for event in await logged():
        viewer.add(event)
    page = body_of(run_page(viewer.view(), is_public=True))
    for shown in ("My money?", "I look.", "Done.", "Looking it up", "Only what is public"):
        assert shown in page, shown
    for hidden in ("refund", "Paid.", "there is none", "sam", "order", "busy", "ann", "tokens"):
        assert hidden not in page, hidden


async def test_the_public_page_has_no_reply_that_may_still_be_discarded() -> None:
    viewer = PublicViewer()
    for event in (await logged())[:-1]:
        viewer.add(event)
    page = run_page(viewer.view(), is_public=True)
    assert "My money?" in page
    assert "I look." not in page and "Done." not in page


def test_the_command_writes_one_file(command: Command, tmp_path: Path) -> None:
    model = ScriptedModel(["Done."])
    run_sync(
        Agent("desk", model=model), Request("Hello?", run_id="r"), journal=tmp_path / "runs.db"
    )
    code, out, err = command("show", "r", "--journal", "runs.db", "--html", "r.html")
    assert (code, out, err) == (0, "", "wrote r.html\n")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Hello?" in page and page.startswith("<!doctype html>")
    assert "Secrets are masked" not in page


def test_what_the_log_masks_the_page_masks_and_says_so(command: Command, tmp_path: Path) -> None:
    @tool
    def echo(text: str) -> str:
        """Say it again."""
        return f"{text} and {SECRET}"

    model = ScriptedModel([ToolCall("c", "echo", {"text": SECRET}), f"It is {SECRET}."])
    agent = Agent("desk", model=model, tools=[echo])
    request = Request(f"Say {SECRET}", run_id="r")
    run_sync(agent, request, journal=tmp_path / "runs.db", secrets=[SECRET])
    assert command("show", "r", "--journal", "runs.db", "--html", "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert SECRET not in page and "&lt;secret" not in page
    assert "It is ***." in page and "Secrets are masked as in the log" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--public"], "--public and --without need --html FILE"),
        (["--without", "text"], "--public and --without need --html FILE"),
        (["--html", "x", "--without", "txt"], "--without takes arguments, results, text, not"),
        (["--html", "x", "--json"], "--html writes a file: leave out --json and --events"),
        (["--html", "no/such/x"], "no/such/x cannot be written"),
    ],
)
def test_it_says_what_it_cannot_do(
    command: Command, tmp_path: Path, options: list[str], said: str
) -> None:
    agent = Agent("desk", model=ScriptedModel([ModelResponse(content="Done.")]))
    run_sync(agent, Request("Hello?", run_id="r"), journal=tmp_path / "runs.db")
    code, _, err = command("show", "r", "--journal", "runs.db", *options)
    assert code == 2 and said in " ".join(err.split())
