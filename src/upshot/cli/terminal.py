"""Where a command writes: streams, glyphs, figures, exit codes."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import IO, NamedTuple, TextIO

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.text import Text

from upshot.contract.base.enums import Status
from upshot.contract.usage import Cost, Usage
from upshot.errors import Misuse

MISUSE = 2

EXIT_CODES: dict[Status, int] = {
    Status.COMPLETED: 0,
    Status.FAILED: 1,
    Status.ABORTED: 1,
    Status.INPUT_REQUIRED: 3,
    Status.INTERRUPTED: 4,
    Status.CANCELED: 5,
}

UNKNOWN = "unknown"

_KIB = 1024


def duration(seconds: float) -> str:
    """A time span: ``340 ms``, ``5.1 s``, ``2 min 05 s``, ``1 h 02 min``; below 0 is 0."""
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left_s:02} s"
    hours, left_min = divmod(minutes, 60)
    return f"{hours} h {left_min:02} min"


def size(size_bytes: int) -> str:
    """A number of bytes: ``812 B``, ``17.3 KiB``, ``2.0 MiB``."""
    if size_bytes < _KIB:
        return f"{size_bytes} B"
    if size_bytes < _KIB**2:
        return f"{size_bytes / _KIB:.1f} KiB"
    return f"{size_bytes / _KIB**2:.1f} MiB"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things: ``1 call``, ``12,345 tokens``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tokens(usage: Usage) -> str:
    """All tokens: ``unknown`` if no call reported any, a lower bound if one did not."""
    if usage.total_tokens is None:
        return UNKNOWN
    return f"{'at least ' if usage.unmeasured_calls else ''}{usage.total_tokens:,}"


def money(cost: Cost | None) -> str:
    """An amount of money, ``unknown`` where nothing had a price."""
    if cost is None or cost.total is None:
        return UNKNOWN
    digits = 2 if cost.total >= 1 else 4
    amount = f"{cost.total:.{digits}f}"
    shown = f"${amount}" if cost.currency == "USD" else f"{amount} {cost.currency}"
    unpriced = f" + {count(cost.unpriced_calls, 'call')} of unknown price"
    return shown + (unpriced if cost.unpriced_calls else "")


def moment(time: datetime | None) -> str:
    """A moment in UTC to the second, ``unknown`` for None."""
    return UNKNOWN if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def clean(text: str, limit: int = 200) -> str:
    """*text* as one harmless line of at most *limit* characters.

    Control characters, with which a model or a tool could steer the terminal, are taken out.
    """
    line = " ".join(_harmless(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def clean_lines(text: str) -> str:
    """*text* with its lines and tabs, without any other control character."""
    return _harmless(text)


def _harmless(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs")
    )


def figures(worked_s: float, usage: Usage, cost: Cost | None, tool_calls: int) -> tuple[str, ...]:
    """What a run used: time, tokens, money, tool calls."""
    return (
        duration(worked_s),
        f"{tokens(usage)} tokens",
        f"cost {money(cost)}",
        count(tool_calls, "tool call"),
    )


class Glyphs(NamedTuple):
    """One set of characters, each one column wide."""

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


MAX_WIDTH = 120


class Terminal:
    """The two streams of a command.

    A terminal gets colours, unless NO_COLOR is set; a pipe gets plain text. A reader that has
    closed its pipe is not an error: further output is dropped. If stdout cannot be written for
    another reason, such as a full disk, that is misuse.
    """

    def __init__(self, *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        # A stream that was closed is None.
        self.out: Console = _console(out or sys.stdout or io.StringIO())
        self.err: Console = _console(err or sys.stderr or io.StringIO(), stderr=True)

    @property
    def is_one_screen(self) -> bool:
        """Whether stdout and stderr are shown together."""
        return self.out.is_terminal and self.err.is_terminal

    @property
    def free_width(self) -> int | None:
        """Columns of stdout; None for a pipe whose width is not set."""
        is_known = self.out.is_terminal or os.environ.get("COLUMNS")
        return self.out.width if is_known else None

    def say(self, *lines: RenderableType) -> None:
        """Write to stdout, laid out for its width."""
        self.say_all(lines)

    def say_all(self, lines: Iterable[RenderableType]) -> None:
        """Write to stdout, laid out for its width, each as it comes."""
        _write(self.out, lambda: _laid_out(self.out, lines))

    def say_rows(self, rows: Iterable[Text]) -> None:
        """Write rows that were laid out for ``free_width`` to stdout."""
        if self.free_width is None:
            self.put("".join(f"{row.plain}\n" for row in rows))
        else:
            self.say_all(rows)

    def tell(self, *lines: RenderableType) -> None:
        """Write to stderr, laid out for its width."""
        _write(self.err, lambda: _laid_out(self.err, lines))

    def hint(self, *lines: str) -> None:
        """Write commands to stderr; no line is broken, so that they can be copied."""
        _write(self.err, lambda: (f"{clean_lines(line)}\n" for line in lines))

    def put(self, text: str) -> None:
        """Write *text* to stdout at once, unchanged; on a terminal without control characters."""
        _write(self.out, lambda: [clean_lines(text) if self.out.is_terminal else text])

    def put_json(self, data: str | bytes) -> None:
        """Write JSON and a line break to stdout; characters that it cannot show are escaped."""
        text = data if isinstance(data, str) else data.decode()
        if self.out.is_terminal:
            harmless = set(clean_lines(text))
            text = "".join(c if c in harmless else _escaped(c) for c in text)
        shown = text.encode(self.out.encoding, _JSON_ESCAPES).decode(self.out.encoding)
        self.put(f"{shown}\n")


def _console(stream: TextIO, *, stderr: bool = False) -> Console:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # A character that the stream cannot show must not end the run.
        reconfigure(errors="replace")
    console = Console(
        file=stream,
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
    console.width = min(console.width, MAX_WIDTH)
    return console


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def _escape_missing(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks as JSON escapes; in JSON it can only be part of a string."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_JSON_ESCAPES = "upshot.json_escapes"
codecs.register_error(_JSON_ESCAPES, _escape_missing)


def _laid_out(console: Console, lines: Iterable[RenderableType]) -> Iterator[str]:
    # The console looks at its surroundings whenever it is asked.
    width = 0 if console.legacy_windows else console.width
    for line in lines:
        if isinstance(line, Text) and line.no_wrap and _fits(line.plain, width):
            yield f"{_styled(console, line).rstrip(' ')}\n"
            continue
        with console.capture() as capture:
            console.print(line)
        # Cells are padded to their width, which would be copied with the text.
        yield "".join(f"{row.rstrip(' ')}\n" for row in capture.get().splitlines())


def _fits(row: str, width: int) -> bool:
    """Whether a row that is not to be broken needs no laying out."""
    return cell_len(row) <= width and len(row.splitlines()) <= 1


def _styled(console: Console, line: Text) -> str:
    """A row with its colours; a tenth of the time that laying it out takes."""
    name = console.color_system
    if name is None:
        return line.plain
    system = COLOR_SYSTEMS[name]
    return "".join(
        text if style is None else style.render(text, color_system=system)
        for text, style, _ in line.render(console)
    )


def _write(console: Console, render: Callable[[], Iterable[str]]) -> None:
    stream = console.file
    try:
        # Laying out writes an empty text to the stream, which may fail as well.
        for text in render():
            stream.write(text)
        stream.flush()
    except OSError as error:
        _mute(stream)
        if not isinstance(error, BrokenPipeError) and not console.stderr:
            raise Misuse(f"the output cannot be written: {error.strerror}") from error
    except ValueError:
        # The caller closed the stream.
        return


def _mute(stream: IO[str]) -> None:
    """Send what follows nowhere, the last flush of the interpreter included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
