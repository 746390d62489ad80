"""A terminal chat: .venv/bin/python examples/chat/chat.py [--model openai:gpt-5]."""

import argparse
import asyncio
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Any

from assistant import make_assistant

from upshot import Agent, Message, TextDelta, ToolProgress, ToolSettled, ToolStarted, start
from upshot import outcome_to_model_content as content_of

show = partial(print, flush=True)


def ask(question: str) -> str:
    line = input(question)
    if not sys.stdin.isatty():
        show(line)  # nobody saw it being typed
    return line


async def reply(agent: Agent[Any], line: str, history: list[Message]) -> list[Message]:
    """Show the reply as it comes; returns the conversation with it."""
    loop, said = asyncio.get_running_loop(), ""
    async with start(agent, line, history=history, approve=approve) as live:
        loop.add_signal_handler(signal.SIGINT, live.cancel)
        async for event in live:
            match event:
                case TextDelta(text=text):
                    said += text
                    show(text, end="")
                case ToolStarted(call=call):
                    show(f"  . {call.name} {call.arguments}")
                case ToolProgress(text=text) if sys.stdout.isatty():
                    show(f"\r    {text:<60}", end="\r")
                case ToolSettled(record=record):
                    show(f"    {content_of(record.outcome):<60.70}")
        loop.remove_signal_handler(signal.SIGINT)
        result = await live.result()
    show("" if result.success else f" ({result.error})")
    stopped = [Message("assistant", said)] if said and not result.success else []
    return [*result.all_messages(), *stopped]


def approve(call: Any) -> bool:
    return ask(f"  ? {call.tool_name} {call.arguments} [y/N] ").lower().startswith("y")


parser = argparse.ArgumentParser(description="A terminal chat. Ctrl-C stops the reply only.")
parser.add_argument("--model", help="a real one, such as openai:gpt-5; else scripted")
agent, history = make_assistant(parser.parse_args().model), list[Message]()
with asyncio.Runner() as runner, suppress(EOFError, KeyboardInterrupt):
    while True:
        history = runner.run(reply(agent, ask("> "), history))
