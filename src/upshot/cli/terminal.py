"""Terminal: where a command writes; answers to stdout, everything else to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TextIO

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.text import Text

from ..errors import Misuse
from .figures import clean_lines

__all__ = ["MAX_WIDTH", "Terminal"]

MAX_WIDTH = 120


class Terminal:
    """The two streams of a command.

    What is on a terminal gets colours, unless NO_COLOR is set; a pipe gets plain text. A
    reader who has gone is no error: what would follow is dropped. Where stdout cannot be
    written for another reason, such as a full disk, that is misuse.

    Args:
        out: Where answers go; None is stdout.
        err: Where everything else goes; None is stderr.
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
        """Columns of stdout; None where it is a pipe and nobody has said how wide it is."""
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
        """Write to stderr what can be typed: no line is broken, or it could not be copied."""
        _write(self.err, lambda: (f"{clean_lines(line)}\n" for line in lines))

    def put(self, text: str) -> None:
        """Write *text* to stdout at once, as it is; harmless where that is a terminal."""
        _write(self.out, lambda: [clean_lines(text) if self.out.is_terminal else text])

    def put_json(self, data: str | bytes) -> None:
        """Write JSON and a line break to stdout, whole: what cannot be shown there is escaped."""
        text = data if isinstance(data, str) else data.decode()
        if self.out.is_terminal:
            harmless = set(clean_lines(text))
            text = "".join(c if c in harmless else _escaped(c) for c in text)
        self.put(_showable(text, self.out.encoding) + "\n")


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


def _showable(text: str, encoding: str) -> str:
    """JSON with what *encoding* does not have as escapes; such characters stand in strings only."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(c if _has(encoding, c) else _escaped(c) for c in text)
    return text


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def _laid_out(console: Console, lines: Iterable[RenderableType]) -> Iterator[str]:
    # The console looks at its surroundings whenever it is asked.
    width = 0 if console.legacy_windows else console.width
    for line in lines:
        if isinstance(line, Text) and line.no_wrap and _fits(line.plain, width):
            yield f"{_styled(console, line).rstrip(' ')}\n"
            continue
        with console.capture() as capture:
            console.print(line)
        # Cells are padded to their width; nobody wants to copy that.
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
        # The stream was closed by whoever gave it.
        return


def _mute(stream: IO[str]) -> None:
    """Send what follows nowhere, the last flush of the interpreter included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
