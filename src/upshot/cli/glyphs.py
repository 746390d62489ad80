"""Glyphs: the few characters that the command draws with, and their stand-ins in ASCII."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Glyphs", "glyphs_for"]


class Glyphs(NamedTuple):
    """One set of characters, each one column wide.

    Attributes:
        work: A bar's time of work.
        wait: A bar's time of waiting.
        mark: A moment.
        good: Before what went well.
        odd: Before what was refused or is out of the ordinary.
        bad: Before what went wrong.
        dot: Between figures.
        rule: Of lines across the page.
        inner: Before what is inside the line above.
    """

    work: str = "█"
    wait: str = "░"
    mark: str = "│"
    good: str = "✓"
    odd: str = "!"
    bad: str = "✗"
    dot: str = "·"
    rule: str = "─"
    inner: str = "└"


_PLAIN = Glyphs(
    work="#", wait=".", mark="|", good="+", odd="!", bad="x", dot="-", rule="-", inner="`"
)


def glyphs_for(encoding: str) -> Glyphs:
    """The glyphs that a stream of *encoding* can show."""
    glyphs = Glyphs()
    try:
        "".join(glyphs).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return glyphs
