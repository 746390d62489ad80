"""Where a command writes: streams, glyphs, figures, exit codes."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple, TextIO

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.text import Text

from upshot.contract.base.enums import Status
from upshot.contract.base.words import clean_lines, steers
from upshot.contract.codec import encode
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
    """Return the glyphs that a stream of *encoding* can show."""
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

    Attributes:
        as_json: Whether the answer is one JSON value.
        log: Gets what would be written to stderr, if that is a log.
    """

    def __init__(
        self, *, as_json: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.as_json = as_json
        self.log: Callable[[str], None] | None = None
        self._width: int | None = None
        # A closed stream is None.
        self.out: Console = _console(out or sys.stdout or io.StringIO())
        self.err: Console = _console(err or sys.stderr or io.StringIO(), stderr=True)

    @property
    def is_one_screen(self) -> bool:
        """Whether stdout and stderr are shown together."""
        return self.out.is_terminal and self.err.is_terminal

    @property
    def free_width(self) -> int | None:
        """Columns of stdout; None for a pipe whose width is not set."""
        is_known = self._width or self.out.is_terminal or os.environ.get("COLUMNS")
        return self.out.width if is_known else None

    def set_width(self, width: int) -> None:
        """Lay out what follows on stdout for *width* columns, in a pipe too."""
        self._width = self.out.width = width

    def say(self, *lines: RenderableType) -> None:
        """Write to stdout, laid out for its width."""
        self.say_all(lines)

    def say_all(self, lines: Iterable[RenderableType]) -> None:
        """Write to stdout, laid out for its width, each line as it arrives."""
        _write(self.out, lambda: _laid_out(self.out, lines))

    def say_rows(self, rows: Iterable[Text]) -> None:
        """Write rows that were laid out for ``free_width`` to stdout."""
        if self.free_width is None:
            self.put("".join(f"{row.plain}\n" for row in rows))
        else:
            self.say_all(rows)

    def answer(self, value: object, *lines: RenderableType) -> None:
        """Write what a command found: *value* as JSON, or else the lines."""
        if self.as_json:
            self.put_json(encode(value))
        else:
            self.say_all(lines)

    def answer_text(self, value: object, text: str) -> None:
        """Write *value* as JSON, or else *text* as it is."""
        if self.as_json:
            self.put_json(encode(value))
        else:
            self.put(text)

    def report(self, *lines: RenderableType) -> None:
        """Write to stderr, laid out for its width."""
        if self.log is not None:
            for line in lines:
                self.log(str(line))
            return
        _write(self.err, lambda: _laid_out(self.err, lines))

    def hint(self, *lines: str) -> None:
        """Write commands to stderr; no line is broken, so that they can be copied."""
        if self.log is not None:
            for line in lines:
                self.log(line)
            return
        _write(self.err, lambda: (f"{clean_lines(line)}\n" for line in lines))

    def put(self, text: str) -> None:
        """Write *text* to stdout at once, its control and format characters escaped."""
        _write(self.out, lambda: [clean_lines(text)])

    def put_json(self, data: str | bytes) -> None:
        """Write JSON and a line break to stdout; characters that it cannot show are escaped."""
        text = data if isinstance(data, str) else data.decode()
        unsafe = {c: json.dumps(c)[1:-1] for c in set(text) if steers(c)}
        unsafe |= {c: f"\\u{ord(c):04x}" for c in unsafe if c.isascii()}
        text = text.translate(str.maketrans(unsafe))
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


def _escape_missing(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks as JSON escapes; in JSON it can only be part of a string."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_JSON_ESCAPES = "upshot.json_escapes"
codecs.register_error(_JSON_ESCAPES, _escape_missing)


def _laid_out(console: Console, lines: Iterable[RenderableType]) -> Iterator[str]:
    # Read once, because the console inspects its environment at each access.
    width = 0 if console.legacy_windows else console.width
    for line in lines:
        if isinstance(line, Text) and line.no_wrap and _fits(line.plain, width):
            yield f"{_styled(console, line).rstrip(' ')}\n"
            continue
        with console.capture() as capture:
            console.print(line)
        # Cells are padded to their width, which would be copied with the text.
        shown = capture.get()
        rows = shown.removesuffix("\n").split("\n") if shown else ()
        yield "".join(f"{row.rstrip(' ')}\n" for row in rows)


def _fits(row: str, width: int) -> bool:
    """Whether a row that must not be wrapped needs no layout."""
    return cell_len(row) <= width and "\n" not in row


def _styled(console: Console, line: Text) -> str:
    """Return a row with its colours, in a tenth of the time of a full layout."""
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
        # Layout writes an empty text to the stream, which may fail as well.
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
    """Discard what follows, the interpreter's last flush included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
