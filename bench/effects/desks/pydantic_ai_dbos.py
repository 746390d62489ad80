"""Pydantic AI in workflows of DBOS, whose model calls and refunds are steps."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.durable_exec.dbos import DBOSDurability

from bench.effects.desks.pydantic_ai import model_of
from bench.effects.play import Play

PACKAGES = ("pydantic-ai-slim", "dbos")


@contextmanager
def _desk(refund: Callable[..., Any], play: Play, folder: Path, executor: str) -> Iterator[Any]:
    """Yield the workflow of a new process, which resumes what its executor had not finished."""
    DBOS(
        config={
            "name": "desk",
            "executor_id": executor,
            "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
            "application_version": "1",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )
    step = DBOS.step(name="refund")(refund)

    @functools.wraps(refund)
    async def tool(**arguments: Any) -> Any:
        try:
            return await asyncio.to_thread(step, **arguments)
        except OSError as error:
            raise ModelRetry(str(error)) from error

    agent = Agent(
        model_of(play),
        name="clerk",
        tools=[Tool(tool, max_retries=3)],
        capabilities=[DBOSDurability()],
    )

    @DBOS.workflow(name="desk")
    async def work(asked: str) -> str:
        return (await agent.run(asked)).output

    DBOS.launch()
    try:
        yield work
    finally:
        DBOS.destroy(destroy_registry=True)


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""

    async def start(work: Any) -> None:
        await work("Refund order 7.")

    if session.startswith("child"):
        # An agent that is run by a tool of a workflow runs in that workflow.
        agent = Agent(model_of(play), tools=[Tool(refund)])
        agent.run_sync("Refund order 7.")
        return
    with _desk(refund, play, folder, session) as work:
        count = len(DBOS.list_workflows())
        with SetWorkflowID(f"{session}-{count}"):
            asyncio.run(start(work))


def resume(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """Unfinished workflows resume automatically when the process starts."""
    with _desk(refund, play, folder, session):
        for one in DBOS.list_workflows():
            DBOS.retrieve_workflow(one.workflow_id).get_result()


def fork(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """Start a new workflow from the first step of another one."""
    with _desk(refund, play, folder, session):
        (one,) = DBOS.list_workflows()
        DBOS.fork_workflow(one.workflow_id, 1).get_result()
