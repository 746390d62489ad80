"""Hooks of a machine: calling them, and telling what came of that."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..contract import AgentError, ErrorCode, Origin
from ..contract.article import kind_of
from ..errors import Misuse
from ..runs import Aborted, Failed, Interrupted, Parked

__all__ = ["NAMES", "MachineHooks"]

NAMES = ("on_state_enter", "on_state_exit", "on_transition", "on_error")


class MachineHooks:
    """The hooks of a user, of which each may be missing, sync or async.

    Args:
        subject: Any object with some of the methods; None has none.

    Raises:
        Misuse: It has none of them, or one that cannot be called; or it is a class, whose methods
            need an object.
    """

    def __init__(self, subject: object) -> None:
        found = {name: getattr(subject, name, None) for name in NAMES}
        self._methods: dict[str, Callable[..., Any]] = {}
        for name, method in found.items():
            if isinstance(subject, type) and _needs_self(subject, name):
                kind = subject.__name__
                raise Misuse(f"hooks is the class {kind}: give an object of it, hooks={kind}()")
            if callable(method):
                self._methods[name] = method
            elif method is not None:
                raise Misuse(f"hooks.{name} is {kind_of(method)}: give a function")
        if subject is not None and not self._methods:
            raise Misuse(f"hooks is {kind_of(subject)} that has none of {', '.join(NAMES)}")

    def __bool__(self) -> bool:
        return bool(self._methods)

    def has(self, name: str) -> bool:
        """Whether there is a hook *name*."""
        return name in self._methods

    async def call(self, name: str, state: str, *facts: object) -> Any:
        """Call the hook *name*.

        Returns:
            What it returned, None where it is missing.

        Raises:
            Failed: It raised; code hook_failed, and the exception is its cause.
        """
        method = self._methods.get(name)
        if method is None:
            return None
        try:
            value = method(state, *facts)
            return await value if inspect.isawaitable(value) else value
        except (Parked, Interrupted, Aborted, Failed):
            # Words of the run's own, by which a hook may end it.
            raise
        except Exception as error:
            # The edge to a user's hook: what it raises is told as its failure.
            message = f"{name} of the state {state!r} raised {type(error).__name__}: {error}"
            raise Failed(
                AgentError(
                    ErrorCode.HOOK_FAILED, message, type=type(error).__name__, origin=Origin.HOST
                )
            ) from error


def _needs_self(subject: type, name: str) -> bool:
    """Whether *name* is a method of the objects of a class, and not of the class itself."""
    return inspect.isfunction(inspect.getattr_static(subject, name, None))
