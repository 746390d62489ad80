"""Draws the table: SVG by hand, and PNG if Chromium is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from html import escape
from pathlib import Path

from bench.effects.columns import COLUMNS
from bench.effects.table import Table
from bench.effects.ways import WAYS

__all__ = ["draw", "write_pictures"]

# The text of a cell, its colour, and its text in the legend.
_CELLS = {
    "once": ("1", "#1a7f4b", "one refund, and who asks again is told of it"),
    "unknown": (
        "1",
        "#4c9be8",
        "one refund, and who asks again is told that it may have been made",
    ),
    "untold": ("1", "#e0a526", "one refund, and who asks again is not told"),
    "twice": ("2", "#c8372d", "the customer is paid twice or more often"),
    "lost": ("0", "#444444", "the customer is never paid"),
    "-": ("", "#e4e4e4", "there is no such thing"),
}
_LABELS, _TOP, _WIDE, _HIGH, _EDGE = 330, 178, 46, 27, 16
_FONT = 'font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"'


def draw(table: Table) -> str:
    """Return the table as SVG."""
    names = table.columns
    used = [word for word in _CELLS if any(word in table.cells[name].values() for name in names)]
    bottom = _TOP + _HIGH * (len(WAYS) + 1) + 14
    width = _LABELS + _WIDE * len(names) + 120
    height = bottom + 24 * ((len(used) + 1) // 2) + _EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" {_FONT} font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<g font-size="17" font-weight="bold">',
        f'<text x="{_EDGE}" y="34">One refund of one order,</text>',
        f'<text x="{_EDGE}" y="57">asked for in fifteen ways</text></g>',
        f'<text x="{_EDGE}" y="{_TOP - 12}" fill="#555555">refunds that the bank made</text>',
    ]
    for at, name in enumerate(names):
        lines += _column(table, name, _LABELS + _WIDE * at)
    for at, way in enumerate(WAYS):
        y = _TOP + _HIGH * at + 18
        lines.append(f'<text x="{_EDGE}" y="{y}">{at + 1}. {escape(way.name)}</text>')
    y = _TOP + _HIGH * len(WAYS) + 20
    lines.append(f'<text x="{_EDGE}" y="{y}" font-weight="bold">one refund, and known</text>')
    for at, word in enumerate(used):
        x, y = _EDGE + (at % 2) * width // 2, bottom + 24 * (at // 2)
        _, colour, said = _CELLS[word]
        lines.append(f'<rect x="{x}" y="{y}" width="16" height="16" rx="3" fill="{colour}"/>')
        lines.append(f'<text x="{x + 24}" y="{y + 13}">{escape(said)}</text>')
    return "\n".join([*lines, "</svg>\n"])


def _column(table: Table, name: str, x: int) -> list[str]:
    middle, ours = x + _WIDE // 2, name in ("once", "guard", "upshot")
    weight = ' font-weight="bold"' if ours else ""
    lines = [
        f'<text transform="translate({middle + 4} {_TOP - 10}) rotate(-45)"{weight}>'
        f"{escape(COLUMNS[name].title)}</text>"
    ]
    for at, way in enumerate(WAYS):
        shown, colour, _ = _CELLS[table.word(name, way) or "-"]
        y = _TOP + _HIGH * at
        lines.append(
            f'<rect x="{x + 2}" y="{y + 2}" width="{_WIDE - 4}" height="{_HIGH - 4}" rx="3" '
            f'fill="{colour}"/>'
        )
        if shown:
            lines.append(
                f'<text x="{middle}" y="{y + 18}" fill="#fff" text-anchor="middle">{shown}</text>'
            )
    good, of = table.kept(name)
    y = _TOP + _HIGH * len(WAYS) + 20
    lines.append(f'<text x="{middle}" y="{y}" text-anchor="middle"{weight}>{good}/{of}</text>')
    return lines


def write_pictures(table: Table, folder: Path) -> None:
    """Write ``effects.svg``, and ``effects.png`` if Chromium is installed."""
    svg = folder / "effects.svg"
    svg.write_text(draw(table))
    chromium = os.environ.get("UPSHOT_BROWSER") or shutil.which("chromium")
    if chromium is None:
        print("no Chromium: effects.png stays as it is")
        return
    width, height = (
        svg.read_text().split(f'{one}="')[1].split('"')[0] for one in ("width", "height")
    )
    command = [chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    shot = [f"--screenshot={folder / 'effects.png'}", f"--window-size={width},{height}"]
    two = "--force-device-scale-factor=2"
    subprocess.run(
        [*command, two, *shot, svg.resolve().as_uri()], check=True, capture_output=True, timeout=60
    )
