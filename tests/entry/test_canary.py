"""A secret that is spoken everywhere, in every spelling, shows up nowhere."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from hypothesis import example, given
from hypothesis import strategies as st

from tests.searching import examples
from tests.telemetry.kit import Sight
from upshot import (
    Agent,
    AgentError,
    ModelResponse,
    Observer,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolContext,
    ToolError,
    encode,
    open_journal,
    resume,
    start,
    to_execution_result,
    tool,
)
from upshot.cli import main

# What JSON, Python, addresses and forms escape, each in its way; the letters make base64 of it.
_ALPHABET = "ä&/\"'\\\n\t 😀%+=é~<abXYZ019"
SECRETS = st.text(_ALPHABET, min_size=8, max_size=16).filter(
    lambda text: text == text.strip() and len(set(text)) > 5
)


def _as_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _in_base64(text: str, *, before: str, code: Callable[[bytes], bytes]) -> str:
    return code(f"{before}{text}.".encode()).decode()


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "JSON, ASCII": _as_json,
    "JSON, UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with slashes": lambda text: _as_json(text).replace("/", r"\/"),
    "JSON, all escaped": lambda text: "".join(
        f"\\u{unit:04X}" for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    ),
    "JSON in JSON": lambda text: _as_json(_as_json(text)),
    "JSON three deep": lambda text: _as_json(_as_json(_as_json(text))),
    "Python": lambda text: repr(text)[1:-1],
    "bytes of Python": lambda text: ascii(text)[1:-1],
    "percent": lambda text: quote(text, safe=""),
    "percent, small": lambda text: re.sub(
        "%..", lambda byte: byte[0].lower(), quote(text, safe="")
    ),
    "form": quote_plus,
    "base64": lambda text: _in_base64(text, before="", code=base64.b64encode),
    "base64, 1 off": lambda text: _in_base64(text, before="k", code=base64.b64encode),
    "base64, 2 off": lambda text: _in_base64(text, before="k:", code=base64.b64encode),
    "base64 for addresses": lambda text: _in_base64(
        text, before="k:", code=base64.urlsafe_b64encode
    ),
}

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)",
    re.S,
)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _char(found[0]), text)


@cache
def _char(escape: str) -> str:
    if len(escape) == 12:
        pair = bytes.fromhex(escape[2:6] + escape[8:])
        return pair.decode("utf-16-be", "replace")
    if len(escape) > 2:
        return chr(min(int(escape[2:], 16), 0x10FFFF))
    return _PLAIN.get(escape[1], escape[1])


def readings(text: str) -> Iterator[str]:
    """Everything that *text* says to somebody who looks for a secret in it."""
    for _ in range(4):
        yield text
        yield unquote(text)
        yield unquote_plus(text)
        for run in re.findall(r"[A-Za-z0-9+/_-]{10,}", text):
            digits = run.replace("-", "+").replace("_", "/")
            for start_at in range(4):
                whole = digits[start_at:]
                data = base64.b64decode(whole + "A" * (-len(whole) % 4))
                yield data.decode("utf-8", "ignore")
        if (inner := _unescaped(text)) == text:
            return
        text = inner


def tells(place: str | bytes, secret: str) -> bool:
    """Whether *secret* can be read in *place*."""
    text = place.decode("utf-8", "ignore") if isinstance(place, bytes) else place
    return any(secret in one for one in readings(text))


@given(SECRETS)
def test_a_reader_finds_each_spelling(secret: str):
    """So that finding none below means that there is none."""
    for spelling, spell in SPELLINGS.items():
        assert tells(f'{{"said": "key={spell(secret)}"}}', secret), spelling


@dataclass
class Story:
    """A run in which everybody says the secret, and all that can be seen of it."""

    secret: str
    said: str
    places: dict[str, str | bytes] = field(default_factory=dict)

    def see(self, name: str, *seen: Any) -> None:
        """Keep what is seen at a place, in each form that a program may print."""
        for one in seen:
            self.places[f"{len(self.places)} {name}"] = one if isinstance(one, bytes) else str(one)
            self.places[f"{len(self.places)} repr of {name}"] = repr(one)

    async def play(self, folder: Path) -> None:
        """Run, park, resume, fail, and look everywhere."""
        journal = folder / "runs.db"
        options: dict[str, Any] = {"secrets": [self.secret], "journal": journal}
        asked = Request(f"Log in: {self.said}", inputs={"key": self.said}, metadata={self.said: 1})
        agent = Agent("keeper", tools=self._tools(), instructions=f"The key is {self.said}")
        async with start(
            agent, asked, model=self._model(), observers=[_Teller(self)], **options
        ) as live:
            async for event in live:
                self.see("event", event, encode(event))
            parked = await live.result()
        self._see_result("parked", parked)
        self._see_commands(folder, parked.run_id)
        answers = [one.approve() for one in parked.pending]
        assert answers, parked.error
        result = await resume(parked.run_id, agent, answers=answers, model=self._model(), **options)
        self._see_result("done", result)
        failed = await self._fail(options)
        self._see_result("failed", failed)
        self._see_commands(folder, failed.run_id)
        async with open_journal(journal) as opened:
            for run_id in (parked.run_id, failed.run_id):
                await opened.export(run_id, folder / f"{run_id}.jsonl")
                self.see("logged events", *[one async for one in opened.events(run_id)])
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.see(f"file {file.name}", file.read_bytes())

    async def _fail(self, options: Any) -> Any:
        async def script(run: Any, host: Any, board: Any) -> Any:
            try:
                raise ValueError(f"inside: {self.said}")
            except ValueError as cause:
                raise RuntimeError(f"outside: {self.said}") from cause

        agent = Agent("failing", engine=ScriptEngine(script), model=self._model())
        async with start(agent, "?", **options) as live:
            async for event in live:
                self.see("event of the failure", event, encode(event))
            return await live.result()

    def _model(self) -> ScriptedModel:
        arguments = json.dumps({"password": self.secret, "said": self.said})
        spelled = arguments.replace("/", r"\/")
        failure = AgentError("rate_limit", f"no: {self.said}", details={"body": self.said})
        return ScriptedModel(
            [
                ModelResponse(
                    content=f"I use {self.said}",
                    tool_calls=(
                        ToolCall("1", "login", arguments),
                        ToolCall("2", "fail", spelled),
                        ToolCall("3", "page", json.loads(arguments)),
                        ToolCall("4", "send", arguments),
                        ToolCall("5", "unknown", spelled),
                    ),
                ),
                failure,
            ]
        )

    def _tools(self) -> list[Any]:
        @tool(effect="read")
        async def login(context: ToolContext[None], password: str, said: str) -> dict[str, str]:
            """Log in."""
            context.progress(f"with {said}", {"key": said})
            return {"told": said, password: said}

        @tool(effect="read")
        async def fail(password: str, said: str) -> str:
            """Fail."""
            try:
                raise KeyError(said)
            except KeyError as cause:
                raise ToolError(f"cannot: {said}") from cause

        @tool(effect="read")
        async def page(password: str, said: str) -> str:
            """Say much."""
            return f"{said}\n" + "-" * 12_000

        @tool(effect="write", approval=True)
        async def send(password: str, said: str) -> str:
            """Send it."""
            return said

        return [login, fail, page, send]

    def _see_result(self, name: str, result: Any) -> None:
        self.see(f"result {name}", result, encode(result), to_execution_result(result))
        self.see(f"error {name}", result.error, result.pending, result.raw)
        try:
            result.unwrap()
        except Exception as error:
            self.see(f"exception {name}", "".join(traceback.format_exception(error)))

    def _see_commands(self, folder: Path, run_id: str) -> None:
        where = ("--journal", str(folder / "runs.db"))
        for arguments in (
            ("show", run_id),
            ("show", run_id, "--json"),
            ("runs",),
            ("runs", "--json"),
            ("approve", run_id),
        ):
            out = StringIO()
            with redirect_stdout(out), redirect_stderr(out):
                main([*arguments, *where])
            self.see(f"upshot {arguments[0]}", out.getvalue())


class _Teller(Observer):
    """Sees what hooks are told."""

    def __init__(self, story: Story) -> None:
        self.story = story

    def on_run_end(self, info: Any, result: Any) -> None:
        self.story.see("hook", info, result)


@examples(8)
@given(SECRETS)
@example("pä&/\"s'w\\o\nr😀d")
def test_a_secret_shows_up_in_no_place(secret: str):
    said = " | ".join(spell(secret) for spell in SPELLINGS.values())
    story, sight, logged = Story(secret, said), Sight(), _Records()
    logging.getLogger().addHandler(logged)
    try:
        with tempfile.TemporaryDirectory() as folder, sight.instrumented(content=True):
            asyncio.run(story.play(Path(folder)))
    finally:
        logging.getLogger().removeHandler(logged)
    story.see("span", *[span.to_json() for span in sight.spans()])
    story.see("log record", *logged.lines)
    # Many places say the same.
    names = {place: name for name, place in story.places.items()}
    assert [name for place, name in names.items() if tells(place, secret)] == []


class _Records(logging.Handler):
    """Keeps what is logged, with the exceptions."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
