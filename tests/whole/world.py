"""What a case is run with: its tools with their book of effects, its agent, and its options."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.whole.case import APPROVED, DIALECTS, REPEATABLE, WRITES, Case
from tests.whole.provider import World
from upshot import (
    Agent,
    ApprovalRequest,
    Budget,
    FinalizeDecision,
    Model,
    Retry,
    ToolContext,
    ToolError,
    resolve,
    tool,
)
from upshot.models import AiohttpTransport, Timeouts
from upshot.wire.pricing import Price

PRICE = Price(input_per_mtok="1000", output_per_mtok="10000")
PRICES = {f"{provider}:m": PRICE for provider in ("openai", "anthropic", "google")}
LATE_S = 0.02
BOOK = "UPSHOT_WHOLE_BOOK"
TAG = re.compile(r"~\d+\.\d+\.\w+?\.\d+/\d+")


class Book:
    """What the tools of one world did: a line for each effect, written by one system call."""

    def __init__(self, path: str) -> None:
        self.path = path

    def enter(self, tag: str) -> None:
        """Have an effect."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{tag}\n".encode())
        os.close(file)

    def read(self) -> Counter[str]:
        """How often each call had its effect."""
        path = Path(self.path)
        return Counter(path.read_text().split() if path.exists() else ())


def act(book: Book, tag: str, way: str) -> Any:
    """What the body of a tool does that does not wait."""
    if way == "raise before":
        raise RuntimeError("it broke before")
    if way == "none":
        raise ToolError("refused", effect="none")
    book.enter(tag)
    if way == "raise after":
        raise RuntimeError("it broke after")
    if way in ("error", "applied"):
        raise ToolError("failed", effect="applied" if way == "applied" else None)
    if way == "failed":
        return {"error": "it says so"}
    return f"{tag} done " + "much " * (5000 if way == "large" else 0)


@tool(effect="write", isolation="process")
def apart(tag: str, way: str) -> Any:
    """Write, in a process of its own."""
    return act(Book(os.environ[BOOK]), tag, way)


def tools_of(book: Book, world: World) -> list[Any]:
    """The tools of a world; each says when its body begins."""

    def step() -> None:
        world.on_step("body")

    def plain(tag: str, way: str) -> Any:
        """Work in a thread."""
        step()
        return act(book, tag, way)

    async def quick(tag: str, way: str) -> Any:
        """Work."""
        step()
        await asyncio.sleep(0)
        return act(book, tag, way)

    async def slow(tag: str, way: str) -> Any:
        """Work for too long."""
        step()
        if way == "late":
            book.enter(tag)
        await asyncio.sleep(30)

    def slow_plain(context: ToolContext, tag: str, way: str) -> Any:
        """Work for too long in a thread."""
        step()
        if way == "late":
            book.enter(tag)
        context.cancelled.wait(30)

    return [
        tool(quick, name="look", effect="read"),
        tool(plain, name="look_in_thread", effect="read"),
        tool(slow, name="slow_look", effect="read", timeout_s=LATE_S),
        tool(quick, name="change", effect="write"),
        tool(plain, name="change_in_thread", effect="write"),
        tool(quick, name="put", effect="write", idempotent=True),
        tool(quick, name="pay", effect="destructive"),
        tool(slow, name="slow", effect="write", timeout_s=LATE_S),
        tool(slow_plain, name="slow_in_thread", effect="write", timeout_s=LATE_S),
        apart.but(env={BOOK: book.path}),
    ]


class Reviser:
    """A decider that asks for so many further attempts."""

    def __init__(self, times: int) -> None:
        self._times = times

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        """Ask for another attempt, if one is left."""
        done = int(result.attempts)
        if done > self._times:
            return FinalizeDecision.accept()
        return FinalizeDecision.revise(f"Revise #{done}")


class Life:
    """One life of a case: a world, its book, and what a run of it takes."""

    def __init__(self, world: World, folder: str, port: int, transport: AiohttpTransport) -> None:
        self.world, self.case, self.folder = world, world.case, folder
        self.book = Book(os.path.join(folder, f"book-{world.number}"))
        self.run_id = f"run-{world.number}"
        self._address = f"http://127.0.0.1:{port}/{world.number}"
        self._transport = transport
        self._answers = {
            call.tag: call.answer
            for script in self.case.scripts.values()
            for reply in script
            for call in reply.calls
        }

    @property
    def journal(self) -> str:
        """The place of the journal on disk."""
        return os.path.join(self.folder, f"journal-{self.world.number}.db")

    def model(self, agent: str) -> Model:
        """The model of an agent."""
        name = DIALECTS[self.case.dialect]
        return resolve(
            name,
            base_url=f"{self._address}/{agent}/v1",
            api_key="k",
            transport=self._transport,
            timeouts=Timeouts(read_s=20),
            prices=PRICES,
        )

    def agent(self) -> Agent[Any]:
        """The agent, made anew."""
        tools = tools_of(self.book, self.world)
        return Agent("a", model=self.model("a"), tools=tools)

    def options(self) -> dict[str, Any]:
        """The options of the run, without its journal."""
        case = self.case
        return {
            "retry": None if case.tries == 1 else Retry(max_tries=case.tries, base_s=0),
            "budget": Budget(unpriced="allow"),
            "deciders": [Reviser(case.revisions)] if case.revisions else [],
            "max_attempts": case.revisions + 1,
            "approve": self.approve,
        }

    def approve(self, request: ApprovalRequest) -> bool | None:
        """What the user says at once."""
        return {"yes": True, "no": False}.get(self._answers[str(request.arguments["tag"])])

    def answer(self, pending: Any) -> Any:
        """What the user says later."""
        said = self._answers[str(pending.arguments["tag"])]
        if said == "later no":
            return pending.deny("no", by="ann")
        if said == "later edit":
            return pending.edit({**pending.arguments, "way": "return"}, by="ann")
        return pending.approve(by="ann")


def tag_of(record: Any) -> str:
    """The tag of a call in a record, "" if it has none."""
    given = record.arguments_given
    found = TAG.search(given if isinstance(given, str) else json.dumps(given))
    return found[0] if found else ""


def is_write(name: str) -> bool:
    """Whether a tool of that name may write."""
    return name in WRITES


__all__ = ["APPROVED", "REPEATABLE", "Book", "Case", "Life", "is_write", "tag_of"]
