"""ToolContext: what a tool knows about the call that it carries out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

import msgspec

from upshot.contract.base.structs import Json, JsonObject

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

Progress: TypeAlias = Callable[[str, Json], None]

# Locked only briefly, when a token is set or first waited for.
_MAKING = threading.Lock()


class CancelToken:
    """Tells a tool's body that its call was abandoned; can be checked from any thread.

    It is truthy once it is set, so ``if context.cancelled: return`` works.
    """

    # Not an asyncio.Event: plain tools check it from their threads. Every call has a token but
    # hardly any body waits for it, so the first that waits creates the event.
    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None

    def __bool__(self) -> bool:
        return self._is_set

    def is_set(self) -> bool:
        """Return whether the work should stop."""
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block the calling thread until it is set, or for *timeout_s* seconds.

        For plain tools only: it would block an event loop.

        Returns:
            Whether it is set.
        """
        with _MAKING:
            if self._event is None:
                self._event = threading.Event()
                if self._is_set:
                    self._event.set()
        return self._event.wait(timeout_s)

    def set(self) -> None:
        """Ask the body to stop."""
        with _MAKING:
            self._is_set = True
            if self._event is not None:
                self._event.set()


class ToolContext(msgspec.Struct, Generic[Deps], frozen=True, eq=False):
    """The context of a call, passed to a tool whose first parameter is annotated with it.

    Attributes:
        run_id: The run that the call belongs to.
        call_id: The model's id of the call.
        tool_name: The tool.
        turn: The label that the caller of ``dispatch`` gave.
        attempt: The attempt of the engine, from 1; 0 outside a run.
        deadline: When the body must be done, in unix seconds; None for no limit.
        idempotency_key: The same for the same call of the same run, even after a retry or a resume;
            pass it to a service that recognises repetitions.
        cancelled: Set when the call is abandoned.
        dependencies: The caller's dependencies object.
        task_id: The caller's task, "" if none.
        context_id: The conversation, "" if none.
        attributes: Free JSON from the caller, as a copy.
    """

    run_id: str
    call_id: str
    tool_name: str
    turn: int
    attempt: int
    deadline: float | None
    idempotency_key: str
    cancelled: CancelToken
    dependencies: Deps
    task_id: str
    context_id: str
    attributes: JsonObject
    _tell: Progress

    def progress(self, text: str, data: Json = None) -> None:
        """Report how far the work is to subscribers; safe from any thread, never fails.

        Args:
            text: Text for the user.
            data: Data for programs.
        """
        if not self.cancelled:
            self._tell(text, data)


def make_context(
    facts: JsonObject, *, cancelled: CancelToken, tell: Progress, dependencies: object = None
) -> ToolContext[object]:
    """Return the context of a call.

    Args:
        facts: All other fields, by name; as JSON, since they may come from another process.
        cancelled: Set when the call is abandoned.
        tell: Receives the body's progress reports.
        dependencies: The caller's dependencies object.
    """
    known = cast("dict[str, Any]", facts)
    return ToolContext(cancelled=cancelled, dependencies=dependencies, _tell=tell, **known)
