"""The hooks of a user, and the context that they may change."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.errors import Misuse
from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked

# Types that cannot be changed in place, and whose equal values are the same.
_FIXED = (str, int, bool, type(None))


class _Encoded(bytes):
    """The former value of a list or mapping, as JSON."""


class MachineContext:
    """The variables, and what was changed since the last ``take_changes``.

    Args:
        values: The initial variables.

    Attributes:
        values: The dict that hooks get; they may change it, also deep inside.
    """

    def __init__(self, values: JsonObject) -> None:
        self.values = values
        self._before: dict[str, object] = {}
        self._set: JsonObject = {}
        self._is_lent = False

    def lend(self) -> None:
        """Prepare for changes by a hook."""
        # Values that cannot be changed in place need no copy.
        self._before = {
            name: value if type(value) in _FIXED else _Encoded(msgspec.json.encode(value))
            for name, value in self.values.items()
        }
        self._is_lent = True

    def set(self, name: str, value: Json) -> None:
        """Set a variable to JSON that nothing else refers to."""
        self.values[name] = value
        self._set[name] = value

    def take_changes(self) -> dict[str, object]:
        """Return the changes as JSON, for the log.

        Raises:
            Failed: A hook added something without a JSON form; code hook_failed.
        """
        changed, gone = self._set, list[str]()
        if self._is_lent:
            changed, gone = self._compare()
        self._set, self._is_lent = {}, False
        form: dict[str, object] = {}
        if changed:
            form["set"] = changed
        if gone:
            form["drop"] = gone
        return form

    def apply(self, form: JsonObject) -> JsonObject:
        """Set the context to its logged state.

        Returns:
            What was set.
        """
        changed: Any = form.get("set", {})
        for name, value in changed.items():
            # Hooks must not change the logged value.
            self.values[name] = value if type(value) in _FIXED else deepcopy(value)
        gone: Any = form.get("drop", ())
        for name in gone:
            self.values.pop(name, None)
        return changed

    def _compare(self) -> tuple[JsonObject, list[str]]:
        changed: JsonObject = {}
        before = self._before
        # A copy of the items, because a thread started by a hook may still write to it.
        for name, value in list(self.values.items()):
            if type(value) in _FIXED:
                if value is self._set.get(name, self):
                    # It is JSON already.
                    changed[name] = value
                    continue
                known = before.get(name, self)
                if type(known) is type(value) and known == value:
                    continue
            try:
                clean = to_free_json({name: value})[0]
            except UnserializableError as error:
                message = f"a hook set {name!r} to a value without JSON form: {error.reason}"
                raise Failed("hook_failed", message) from error
            [(key, found)] = cast("JsonObject", clean).items()
            known = before.get(key)
            if not isinstance(known, _Encoded) or known != msgspec.json.encode(found):
                changed[key] = found
        if before.keys() <= self.values.keys():
            return changed, []
        return changed, [name for name in before if name not in self.values]


NAMES = ("on_state_enter", "on_state_exit", "on_transition", "on_error")


class MachineHooks:
    """The hooks of a user; each may be missing, sync or async.

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
            What it returned, None if it is missing.

        Raises:
            Failed: It raised; code hook_failed, and the exception is its cause.
        """
        method = self._methods.get(name)
        if method is None:
            return None
        try:
            value = method(state, *facts)
            # Most hooks return None, and isawaitable is not cheap.
            return await value if value is not None and inspect.isawaitable(value) else value
        except (Parked, Interrupted, Aborted, Failed):
            # Signals by which a hook may end the run.
            raise
        except Exception as error:
            # Boundary to a user's hook: its exceptions become failures.
            message = f"{name} of the state {state!r} raised {type(error).__name__}: {error}"
            raise Failed(
                AgentError(
                    ErrorCode.HOOK_FAILED, message, type=type(error).__name__, origin=Origin.HOST
                )
            ) from error


def _needs_self(subject: type, name: str) -> bool:
    """Whether *name* is an instance method of a class."""
    return inspect.isfunction(inspect.getattr_static(subject, name, None))
