"""OpenTelemetry spans and metrics of runs, read from their events."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.telemetry.instrumentation import Instrumentation, instrument

__all__ = ["Instrumentation", "instrument"]

__getattr__: Callable[[str], object] = lazy_names(
    __name__, globals(), {"instrumentation": "Instrumentation instrument"}
)


def __dir__() -> list[str]:
    return __all__
