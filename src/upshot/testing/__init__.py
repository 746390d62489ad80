"""What tests of agents and of upshot's seams need: contract suites and doubles."""

from .clock import FakeClock
from .journal import JournalContract

__all__ = ["FakeClock", "JournalContract"]
