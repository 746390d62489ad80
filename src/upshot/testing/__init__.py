"""What tests of agents and of upshot's seams need: contract suites and doubles.

Fixtures for pytest are in :mod:`upshot.testing.plugin`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from ..models import ScriptedModel
    from .clock import FakeClock
    from .engine import EngineContract
    from .hooks import DeciderContract, ObserverContract
    from .host import HostContract
    from .journal import JournalContract
    from .model import ModelContract
    from .scripted_tool import CrashAfterStart, LateReturn, ScriptedTool, TimeoutAfterEffect
    from .tool import ToolContract

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
]

_HOMES = {
    ".models": "ScriptedModel",
    "clock": "FakeClock",
    "engine": "EngineContract",
    "hooks": "DeciderContract ObserverContract",
    "host": "HostContract",
    "journal": "JournalContract",
    "model": "ModelContract",
    "scripted_tool": "CrashAfterStart LateReturn ScriptedTool TimeoutAfterEffect",
    "tool": "ToolContract",
}

_pytest = sys.modules.get("pytest")
if _pytest is not None:
    # So that what a suite compares is shown when it differs. Nothing here needs pytest.
    _modules = (home for home in ("check", "stage", *_HOMES) if not home.startswith("."))
    _pytest.register_assert_rewrite(*(f"{__name__}.{home}" for home in _modules))

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
