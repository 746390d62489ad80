"""Launch: what is needed to start a run's agent again; it is kept in the run's log."""

from __future__ import annotations

from typing import Self

import msgspec

from ..contract import JsonObject

__all__ = ["Launch"]


class Launch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command line said of a run's agent; never a key.

    Attributes:
        file: The agent's file, absolute.
        agent: Its name in that file, "" where the file holds one.
        model: What stood in ``--model``, "" for the agent's own; a file in it is absolute.
        base_url: What stood in ``--base-url``, "" for none.
        tools: Files with the tools that an agent file names, absolute.
        folder: Where the run was started; relative paths of its tools count from here.
    """

    file: str
    agent: str = ""
    model: str = ""
    base_url: str = ""
    tools: tuple[str, ...] = ()
    folder: str = ""

    def to_json(self) -> JsonObject:
        """These facts as JSON, for the option ``launch`` of a run."""
        return msgspec.to_builtins(self)

    @classmethod
    def of(cls, options: JsonObject) -> Self | None:
        """Read them from the options of a ``run_started``; None where there are none."""
        try:
            return msgspec.convert(options.get("launch"), cls)
        except msgspec.ValidationError:
            return None
