"""The context of a machine: variables that hooks may change as they like, and what changed."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import msgspec

from ..contract import Json, JsonObject, UnserializableError, to_free_json
from ..runs import Failed

__all__ = ["MachineContext"]


class MachineContext:
    """The variables, and what was changed since they were last marked.

    Args:
        values: What it begins with.

    Attributes:
        values: The dict that hooks get; they may change it, also deep inside.
    """

    def __init__(self, values: JsonObject) -> None:
        self.values = values
        self._before: dict[str, bytes] = {}
        self._set: JsonObject = {}
        self._is_lent = False

    def lend(self) -> None:
        """From now on somebody else may change it."""
        self._before = {name: msgspec.json.encode(value) for name, value in self.values.items()}
        self._is_lent = True

    def set(self, name: str, value: Json) -> None:
        """Set a variable to JSON that nobody else has."""
        self.values[name] = value
        self._set[name] = value

    def take_changes(self) -> dict[str, object]:
        """What was changed, as JSON, for the log.

        Raises:
            Failed: A hook put something into it that has no JSON form; code hook_failed.
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
        """Have the context as the log has it.

        Returns:
            What was set.
        """
        changed = cast("JsonObject", form.get("set", {}))
        for name, value in changed.items():
            # What stands in the log is not for hooks to change.
            self.values[name] = deepcopy(value) if isinstance(value, list | dict) else value
        for name in cast("list[str]", form.get("drop", ())):
            self.values.pop(name, None)
        return changed

    def _compare(self) -> tuple[JsonObject, list[str]]:
        changed: JsonObject = {}
        before = self._before
        for name, value in list(self.values.items()):
            try:
                clean = to_free_json({name: value})[0]
            except UnserializableError as error:
                message = f"a hook put into the context what is no JSON, {name!r}: {error.reason}"
                raise Failed("hook_failed", message) from error
            [(key, found)] = cast("JsonObject", clean).items()
            if before.get(key) != msgspec.json.encode(found):
                changed[key] = found
        return changed, [name for name in before if name not in self.values]
