"""Loading a machine: from its file, its text or plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from upshot.contract.base.checks import kind_of
from upshot.engines.machine.document import (
    MAX_BYTES,
    BrokenMachine,
    MachineFault,
    Mark,
    Piece,
    read_data,
    read_yaml,
)
from upshot.engines.machine.machine import Machine
from upshot.engines.machine.machine_reader import read_machine
from upshot.errors import Misuse

__all__ = ["check_machine", "load_machine"]

_MAX_FILES = 100


def load_machine(source: str | os.PathLike[str] | Mapping[str, Any]) -> Machine:
    """Read a machine.

    Args:
        source: The path of a file in YAML or JSON, the text of one, which has more than one
            line, or the same as plain data. Files of sub-machines are found from the file that
            names them, and from the current folder where there is none.

    Returns:
        The machine, its expressions parsed; what may be a mistake is in its ``warnings``.

    Raises:
        BrokenMachine: It has faults; all are reported at once, each with file, line and column,
            what was found and what was expected. It is a Misuse.
        Misuse: There is no such file, it is a folder, or the extra ``machine`` is not installed.
    """
    machine, faults = _load(source)
    if machine is None:
        raise BrokenMachine(faults)
    return machine


def check_machine(
    source: str | os.PathLike[str] | Mapping[str, Any],
) -> tuple[MachineFault, ...]:
    """All that is wrong with a machine, warnings too, in the order of the text.

    Raises:
        Misuse: There is no such file, or the extra ``machine`` is not installed.
    """
    return tuple(_load(source)[1])


def _load(source: object) -> tuple[Machine | None, list[MachineFault]]:
    faults: list[MachineFault] = []
    loader = _Loader(faults)
    if isinstance(source, Mapping):
        machine = loader.read(read_data(cast("object", source), faults), "machine")
    elif isinstance(source, str) and not source.strip() and "\n" not in source:
        raise Misuse("a machine is a path, the text of a file or a mapping, not an empty text")
    elif isinstance(source, str) and "\n" in source:
        machine = loader.read(read_yaml(source, faults), "machine")
    elif isinstance(source, str | os.PathLike):
        machine = loader.open(Path(cast("str", source)))
    else:
        raise Misuse(f"a machine is a path or a mapping, not {kind_of(source)}")
    # What an alias stands for is read as often as it is used.
    faults[:] = dict.fromkeys(faults)
    # Of one file they come in the order of the text; files in that in which they were read.
    files = {file: place for place, file in enumerate(dict.fromkeys(f.mark.file for f in faults))}
    faults.sort(key=lambda fault: (files[fault.mark.file], fault.mark.line, fault.mark.column))
    broken = machine is None or any(fault.severity == "fault" for fault in faults)
    return None if broken else machine, faults


class _Loader:
    """Reads each file once, however often it is named."""

    def __init__(self, faults: list[MachineFault]) -> None:
        self._faults = faults
        self._known: dict[Path, Machine | None] = {}
        self._open: list[Path] = []

    def open(self, path: Path) -> Machine | None:
        """Read the file at *path*.

        Raises:
            Misuse: It cannot be read.
        """
        try:
            text = _text_of(path)
        except OSError as error:
            raise Misuse(f"the machine {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise Misuse(f"the machine {path} is no text in UTF-8: {error.reason}") from error
        found = path.resolve()
        self._open.append(found)
        piece = read_yaml(text, self._faults, file=str(path))
        machine = self._known[found] = self.read(piece, path.stem, file=str(path))
        self._open.pop()
        return machine

    def read(self, piece: Piece | None, name: str, *, file: str = "") -> Machine | None:
        """Read the machine that *piece* is."""
        if piece is None:
            if not self._faults:
                found = "nothing"
                self._faults.append(MachineFault(Mark(file, 1, 1), found, "a machine", kind="type"))
            return None
        return read_machine(piece, self._faults, name=name, inner=self._inner)

    def _inner(self, name: str, mark: Mark) -> Machine | None:
        path = Path(mark.file).parent / name if mark.file else Path(name)
        found = path.resolve()
        if found in self._known:
            return self._known[found]
        problem = ""
        if found in self._open:
            problem = f"the machine {name!r}, which this one is a part of"
        elif len(self._known) >= _MAX_FILES:
            problem = f"more than {_MAX_FILES} files"
        if not problem:
            try:
                return self.open(path)
            except Misuse as error:
                problem = str(error)
        wanted = "the file of another machine"
        self._faults.append(MachineFault(mark, problem, wanted, kind="machine"))
        return None


def _text_of(path: Path) -> str:
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    if not path.is_file():
        # A device or a pipe might never end.
        raise FileNotFoundError(2, "there is no such file")
    with path.open("rb") as file:
        # One byte more tells that there is more.
        data = file.read(MAX_BYTES + 1)
    return data.decode("utf-8-sig", "strict" if len(data) <= MAX_BYTES else "ignore")
