"""``python -m kills.beside [KILLS]``: kill support desks of other frameworks, with and without
the guard, and print the fate of their refunds. It needs the extra ``adapters``.

Each desk of ``examples/beside`` has one refund to make. Its process is killed with SIGKILL, at
random moments and right after the payment, and a new one resumes in the framework's own way, to the
end. The bank's book then shows how many times the money was paid, and the desk's answer what the
user was told:

- twice: the money was paid more than once;
- lost: it was not paid but the user was told that it was, or it was paid and the user was told
  neither that nor that the outcome is unknown;
- unknown: the user was told that the outcome is unknown, and a person checks the book.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kills.__main__ import ENDED, HANGS_S, ended, fork

KILLS_A_DESK = 2
ASKED = "Refund order 7."
UNKNOWN = "The process ended while this call ran"
BANK_S = 0.05
"""The maximum time that the bank takes to answer after paying, in seconds."""


def models() -> dict[str, Callable[[], Any]]:
    """Return a model for the desks of each framework: it requests the refund, and reports on it.

    As with providers, each request gives a call a new id.
    """
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def reply(messages: Any, _: Any) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        told = [part.content for part in parts if part.part_kind == "tool-return"]
        last = TextPart(str(told[-1])) if told else ToolCallPart("refund", {"order": 7})
        return ModelResponse(parts=[last])

    class Replies(GenericFakeChatModel):
        messages: Any = ()

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            told = [one.content for one in messages if isinstance(one, ToolMessage)]
            call = {"name": "refund", "args": {"order": 7}, "id": f"call_{os.urandom(8).hex()}"}
            last = AIMessage(str(told[-1])) if told else AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=last)])

    return {"pydantic_ai": lambda: FunctionModel(reply), "langgraph": Replies}


def book_of(folder: Path) -> list[str]:
    """Return the rows of the bank's book."""
    book = folder / "book"
    return book.read_text().split() if book.exists() else []


async def serve(module: Any, make_model: Callable[[], Any], folder: Path, *, dies: bool) -> int:
    """Work at a desk, and leave its answer next to it; or die right after the payment."""

    async def bank(order: int) -> None:
        file = os.open(folder / "book", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{order}\n".encode())
        os.close(file)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(random.uniform(0, BANK_S))

    answer = await module.serve(make_model(), bank, folder, ASKED)
    (folder / "answer").write_text(answer)
    return ENDED


def judge(folder: Path) -> str:
    """What became of the refund of a desk that has answered."""
    rows, answer = book_of(folder), (folder / "answer").read_text()
    if len(rows) > 1:
        return "twice"
    if UNKNOWN in answer:
        return "unknown"
    return "once" if rows and "is refunded" in answer else "lost"


def kill_desks(framework: str, way: str, kills: int, folder: Path) -> Counter[str]:
    """Kill desks until *kills* were killed.

    Args:
        framework: "pydantic_ai" or "langgraph".
        way: "plain" or "guarded".
        kills: How many kills.
        folder: Each desk gets a folder in it.

    Returns:
        How many desks there were, by the fate of their refunds; and "kills".
    """
    module = importlib.import_module(f"examples.beside.{framework}_{way}")
    make_model = models()[framework]
    found = Counter[str]()
    work_s = 0.0
    while found["kills"] < kills:
        desk = folder / f"{framework}-{way}-{found.total()}"
        desk.mkdir()
        # The first desk is left alone: its time shows when the others can be killed.
        left = KILLS_A_DESK if work_s else 0
        while True:
            began, dies = time.monotonic(), left > 0 and random.random() < 0.5
            pid = fork(lambda desk=desk, dies=dies: serve(module, make_model, desk, dies=dies))
            code = ended(pid, random.uniform(0, work_s) if left and not dies else HANGS_S)
            if code is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if code in (None, -signal.SIGKILL):
                found["kills"] += 1
                left -= 1
            elif code == ENDED:
                break
            else:
                raise RuntimeError(f"{desk.name} ended with {code}")
        work_s = work_s or time.monotonic() - began
        found[judge(desk)] += 1
    return found


def main() -> int:
    """Kill desks of all kinds as often as the command line says; returns 1 if the guard failed."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    words = ("kills", "once", "twice", "lost", "unknown")
    print(f"{'':24}" + "".join(f"{word:>9}" for word in words))
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for framework in models():
            for way in ("plain", "guarded"):
                found = kill_desks(framework, way, kills, Path(folder))
                counts = "".join(f"{found[word]:9}" for word in words)
                print(f"{framework + ' ' + way:24}{counts}", flush=True)
                faults += way == "guarded" and found["twice"] + found["lost"]
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
