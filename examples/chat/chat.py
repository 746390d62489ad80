"""A terminal chat: .venv/bin/python examples/chat/chat.py [--model openai:gpt-5]."""

import asyncio
import shutil
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Any

from assistant import chosen_assistant
from prompt import agree, ask

import upshot

show, WIDE = partial(print, flush=True), min(70, shutil.get_terminal_size().columns - 5)


async def reply(
    agent: upshot.Agent[Any], line: str, history: list[upshot.Message]
) -> list[upshot.Message]:
    """Show the reply as it comes; returns the conversation with it."""
    loop, said = asyncio.get_running_loop(), ""
    async with upshot.start(agent, line, history=history, approve=approve) as live:
        loop.add_signal_handler(signal.SIGINT, live.cancel)
        async for event in live:
            match event:
                case upshot.TextDelta(text=text):
                    said += text
                    show(text, end="")
                case upshot.ToolStarted(call=call):
                    show(f"  . {call.name} {call.arguments}")
                case upshot.ToolProgress(text=text) if sys.stdout.isatty():
                    show(f"\r    {text:<{WIDE}.{WIDE}}", end="\r")
                case upshot.ToolSettled(record=record):
                    show(f"    {upshot.outcome_to_model_content(record.outcome):<{WIDE}.{WIDE}}")
                case _:
                    pass
        loop.remove_signal_handler(signal.SIGINT)
        result = await live.result()
    show("" if result.success else f" ({result.error})")
    stopped = [upshot.Message("assistant", said)] if said and not result.success else []
    return [*result.all_messages(), *stopped]


def approve(call: upshot.ApprovalRequest) -> bool:
    return agree(f"  ? {call.tool_name} {dict(call.arguments)}")


agent, history = chosen_assistant(), list[upshot.Message]()
with asyncio.Runner() as runner, suppress(EOFError, KeyboardInterrupt):
    while True:
        line = ask("> ")
        with suppress(KeyboardInterrupt):  # before there was a reply that it could stop
            history = runner.run(reply(agent, line, history))
show()
