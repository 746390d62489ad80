"""What tests of agents and of upshot's seams need: contract suites and doubles.

A suite is a class with async tests for pytest-asyncio: inherit it and give a ``make``. Each test
makes its subject in its own event loop, checks that it has the methods of its role, uses it, and
closes it again. The parts:

- ``suite`` is what all suites share: making and checking the subject, runs that use it, and what
  an observer saw of them.
- ``engine_contract``, ``host_contract``, ``hook_contracts`` (observers and deciders),
  ``journal_contract``, ``model_contract``, ``tool_contract`` and ``transport_contract`` are the
  suites, one for each seam.
- ``doubles`` stand in for parts of a test: ``ScriptedTool``, ``FakeClock``, and tools that fail at
  a chosen moment. ``ScriptedModel`` is in ``upshot.models``. They need no pytest.
- ``plugin`` has the fixtures for pytest; it is loaded as a pytest plugin.

What always holds:

- A suite tests behaviour that callers rely on, through the same calls as a run; it never looks at
  private attributes.
- A failed assertion says what the subject did and what was expected, so that its author needs not
  read the suite. A part of the contract that is optional is skipped with a reason.
- The suites pass for every implementation that ships with upshot.

Traps: a subject that never ends when it is cancelled keeps pytest from closing the loop. Assert
rewriting is registered when this package is imported, so import it after pytest.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.models.scripted import ScriptedModel
    from upshot.testing.doubles import (
        CrashAfterStart,
        FakeClock,
        LateReturn,
        ScriptedTool,
        TimeoutAfterEffect,
    )
    from upshot.testing.engine_contract import EngineContract
    from upshot.testing.hook_contracts import DeciderContract, ObserverContract
    from upshot.testing.host_contract import HostContract
    from upshot.testing.journal_contract import JournalContract
    from upshot.testing.model_contract import ModelContract
    from upshot.testing.tool_contract import ToolContract
    from upshot.testing.transport_contract import TransportContract, check_transport

__all__ = [
    "CrashAfterStart",
    "DeciderContract",
    "EngineContract",
    "FakeClock",
    "HostContract",
    "JournalContract",
    "LateReturn",
    "ModelContract",
    "ObserverContract",
    "ScriptedModel",
    "ScriptedTool",
    "TimeoutAfterEffect",
    "ToolContract",
    "TransportContract",
    "check_transport",
]

_HOMES = {
    ".models.scripted": "ScriptedModel",
    "doubles": "FakeClock CrashAfterStart LateReturn ScriptedTool TimeoutAfterEffect",
    "engine_contract": "EngineContract",
    "hook_contracts": "DeciderContract ObserverContract",
    "host_contract": "HostContract",
    "journal_contract": "JournalContract",
    "model_contract": "ModelContract",
    "tool_contract": "ToolContract",
    "transport_contract": "TransportContract check_transport",
}

_pytest = sys.modules.get("pytest")
if _pytest is not None:
    # So that what a suite compares is shown when it differs. Nothing here needs pytest.
    _modules = (home for home in ("suite", *_HOMES) if not home.startswith("."))
    _pytest.register_assert_rewrite(*(f"{__name__}.{home}" for home in _modules))

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
