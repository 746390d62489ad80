"""Dependencies of a session: given by the call, lent by the parent run, or made by a factory.

``RunContext.dependencies`` holds them. Those that a factory makes are there from the first attempt
of the session on, and what it opened is left in the same task, at the end of the session.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from upshot.contract.base.enums import Origin
from upshot.contract.error import RunWarning
from upshot.runs.callbacks import blame, call, method, raised
from upshot.runs.run_context import RunContext


def hold_inside(context: RunContext) -> bool:
    """Whether a call gave the dependencies: then agents inside take them before their own."""
    outer = None if context.parent is None else context.parent.context
    given = context.plan.dependencies
    # What was lent is as it is in the run that lent it.
    is_lent = outer is not None and given is outer.dependencies
    return hold_inside(outer) if outer is not None and is_lent else given is not None


async def open_dependencies(context: RunContext) -> object:
    """Have the factory make the dependencies, once a session; gives them.

    Raises:
        ValueError: It made nothing.
        Exception: Whatever it raised.
    """
    factory, wait = context.plan.dependency_factory, context.supervisor.wait
    if factory is None or context.opened is not None:
        return context.dependencies
    if context.recording is not None:
        # A replay touches nothing outside.
        context.dependencies = None
        return None
    context.opened = AsyncExitStack()
    try:
        made: Any = await call(factory, context.info, wait=wait)
        if method(made, "__aenter__") and method(made, "__aexit__"):
            made = await call(context.opened.enter_async_context, made, wait=wait)
    except Exception as error:
        blame(error, "dependencies", context.info.run_id)
        raise
    if made is None:
        raise ValueError("dependencies returned None: return what context.dependencies shall be")
    context.dependencies = made
    if context.toolbox is not None:
        context.toolbox.depend_on(made)
    return made


async def close_dependencies(context: RunContext) -> None:
    """Leave what the factory opened; an exception there is a warning and changes nothing else."""
    opened, context.opened = context.opened, None
    if opened is None:
        return
    try:
        await call(opened.aclose, wait=context.supervisor.wait)
    except Exception as error:
        # The run is over, and what it did is done.
        message = raised("what dependencies opened", error)
        warning = RunWarning(code="dependencies_failed", message=message, origin=Origin.HOST)
        context.recorder.warn(warning)
