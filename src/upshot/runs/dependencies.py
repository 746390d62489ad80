"""Dependencies of a session: given by the call, inherited from the parent, or made by a factory.

``RunContext.dependencies`` refers to them. A factory is called in the session's first attempt. The
context managers it opened are closed in the same task, at the end of the session.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from upshot.contract.base.enums import Origin
from upshot.contract.error import RunWarning
from upshot.runs.callbacks import blame, call, method, raised
from upshot.runs.run_context import RunContext


def hold_inside(context: RunContext) -> bool:
    """Whether a call gave the dependencies. Then they override those of child runs' agents."""
    outer = None if context.parent is None else context.parent.context
    given = context.plan.dependencies
    # Inherited dependencies count as they do in the run they come from.
    is_lent = outer is not None and given is outer.dependencies
    return hold_inside(outer) if outer is not None and is_lent else given is not None


async def open_dependencies(context: RunContext) -> object:
    """Call the factory of dependencies, once a session, and return what it made.

    Raises:
        ValueError: It returned None.
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
        raise ValueError("dependencies returned None: return the object for context.dependencies")
    context.dependencies = made
    if context.toolbox is not None:
        context.toolbox.depend_on(made)
    return made


async def close_dependencies(context: RunContext) -> None:
    """Close what the factory opened. An exception there becomes only a warning."""
    opened, context.opened = context.opened, None
    if opened is None:
        return
    try:
        await call(opened.aclose, wait=context.supervisor.wait)
    except Exception as error:
        # The run is over; this cannot change its result.
        message = raised("what dependencies opened", error)
        warning = RunWarning(code="dependencies_failed", message=message, origin=Origin.HOST)
        context.recorder.warn(warning)
