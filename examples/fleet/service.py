"""The service of the fleet: agents that pay bills, one step at a time.

Started by fleet.py, as often as wished, each time with the same port: the system spreads
connections over all that listen. On several machines a load balancer stands there.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Sequence

import uvicorn

from upshot import Agent, App, Message, ScriptedModel, ToolCall, ToolContext, tool
from upshot.fleet import restate_service

STEPS = 5
STEP_S = 0.3


@tool(effect="write")
async def pay(ctx: ToolContext, bill: int) -> str:
    """Pay a bill; a second time it would be paid twice."""
    note("paid", ctx.run_id, bill)
    await asyncio.sleep(STEP_S)
    return f"bill {bill} is paid"


@tool(effect="write", approval=True)
async def close_books(ctx: ToolContext) -> str:
    """Close the books."""
    note("closed", ctx.run_id, 0)
    return "closed"


def note(what: str, run_id: str, bill: int) -> None:
    """Add a line to the file of all that was done; nothing of it is lost when a process dies."""
    line = f"{what} {run_id} {bill} {os.getpid()} {time.time()}\n"
    file = os.open(os.environ["FLEET_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def next_step(messages: Sequence[Message]) -> list[ToolCall] | str:
    """What the scripted model says: it pays the bills one by one, then closes the books."""
    done = sum(message.role == "assistant" for message in messages)
    if done < STEPS:
        return [ToolCall(f"p{done}", "pay", {"bill": done})]
    if done == STEPS and "close" in messages[0].text:
        return [ToolCall("c", "close_books", {})]
    return "All is paid."


def make_app(journal: str) -> App:
    """The App of the services, and of whoever submits runs or answers them."""
    agent = Agent("clerk", model=ScriptedModel(next_step), tools=[pay, close_books])
    return App([agent], journal=journal)


def main(port: int, journal: str, ingress: list[str]) -> None:
    """Serve until the process is told to end."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print("serves", flush=True)
    service = restate_service(make_app(journal), ingress=ingress)
    server = uvicorn.Server(uvicorn.Config(service, lifespan="on", log_level="warning"))
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
