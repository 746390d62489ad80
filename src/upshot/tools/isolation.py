"""Isolation: how a body is found, and limited, in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ..contract.number import check_amount, check_whole
from ..errors import Misuse

__all__ = ["Address", "ProcessLimits", "address_of"]


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a tool with ``isolation="process"`` may use; each process that it starts too.

    Attributes:
        cpu_s: Seconds of processor time, rounded up to whole ones; None is no limit.
        memory_bytes: Size of the address space, the interpreter (about 100 MB) included;
            None is no limit. Not every system holds it; Linux does.
    """

    cpu_s: float | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        none, whose = "no limit", "ProcessLimits"
        check_amount(f"{whose}.cpu_s", self.cpu_s, above=0, is_endless=False, none=none)
        check_whole(f"{whose}.memory_bytes", self.memory_bytes, least=1, none=none)


@dataclass(frozen=True, slots=True)
class Address:
    """Where another process finds a function.

    Attributes:
        module: Its module, "" for the script that is run.
        file: The module's file, "" where it has none.
        name: Its name in there, dotted for one in a class.
    """

    module: str
    file: str
    name: str


def address_of(function: Callable[..., object], tool_name: str) -> Address:
    """Where another process finds *function*.

    Raises:
        Misuse: It has no such place, for instance because it is defined inside a function;
            or this system cannot isolate.
    """
    if os.name != "posix":
        raise Misuse(f"tool {tool_name!r}: isolation='process' needs a POSIX system")
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "")
    if not isinstance(module, str) or not name or "<" in name or hasattr(function, "__self__"):
        raise Misuse(
            f"tool {tool_name!r}: isolation='process' needs a function at the top of a module, "
            "for another process has to import it by name"
        )
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        module = "" if spec is None else spec.name
        if not module and not os.path.isfile(file):
            raise Misuse(
                f"tool {tool_name!r}: isolation='process' needs a module or a script file; what "
                "is typed in has neither"
            )
    return Address(module, os.path.abspath(file) if file else "", name)
