"""The tutorial, done as it says: a file that grows, run after each block, and one of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.docs.test_pages import ROOT
from tests.processes import launched

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCES = [(kind, name.strip(), body) for kind, name, body in FENCE.findall(PAGE)]
END = "-- end of a block --"


def do(command: list[str] | str, folder: Path) -> str:
    """What *command* prints in *folder*, as it is typed in an activated environment."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, given in {"python": (), "upshot": ("-m", "upshot")}.items():
        start = launched("-W", "error", *given)
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), (command, done.stderr)
    return done.stdout


def test_the_file_prints_after_each_block_what_the_page_says(tmp_path: Path) -> None:
    code = ""
    expected: list[str] = []
    for number, (kind, name, body) in enumerate(FENCES):
        if kind != "python" or name:
            continue
        code += f"{body}\nprint({END!r})\n"
        after = FENCES[number + 1]
        expected.append(after[2] if after[0] == "text" else "")
    assert len(expected) >= 8
    (tmp_path / "tutorial.py").write_text(code)
    *told, _ = do(["python", "tutorial.py"], tmp_path).split(f"{END}\n")
    assert told == expected


def test_the_program_that_is_killed_is_gone_on_with_as_the_page_says(tmp_path: Path) -> None:
    for kind, name, body in FENCES:
        if kind == "python" and name:
            (tmp_path / name).write_text(body)
    console = "".join(body for kind, _, body in FENCES if kind == "console")
    for step in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, told = step.partition("\n")
        printed = do(command, tmp_path)
        assert printed.rstrip() == told.rstrip() if told else printed
