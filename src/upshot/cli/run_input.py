"""What a command line gives a run: its id, its variables, its request."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click
import msgspec

from ..contract import JsonObject
from .run_lookup import LAST

__all__ = ["check_run_id", "read_inputs", "standard_input"]

_RUN_ID = re.compile(r"\w[\w.:/-]{0,199}")


def check_run_id(run_id: str) -> None:
    """Check that a run can be named so on a command line afterwards; "" is none chosen.

    Raises:
        click.UsageError: It could not.
    """
    if run_id == LAST:
        raise click.UsageError(f"--run-id {LAST}: that is how the last run is called")
    if run_id and not _RUN_ID.fullmatch(run_id):
        raise click.UsageError(
            f"--run-id {run_id!r}: give letters, digits and any of . _ - : / after the first, "
            "such as run-7"
        )


def read_inputs(given: Sequence[str]) -> JsonObject:
    """Variables from ``NAME=VALUE``; a value that is no JSON is a text.

    Raises:
        click.UsageError: There is no name or no sign.
    """
    inputs: JsonObject = {}
    for item in given:
        name, sign, text = item.partition("=")
        if not (name and sign):
            raise click.UsageError(f"--input {item}: give a name and a value, such as n=3")
        try:
            inputs[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            inputs[name] = text
    return inputs


def standard_input() -> str:
    """All of stdin as text.

    Raises:
        click.UsageError: It is closed.
    """
    if sys.stdin is None:  # It was closed.
        raise click.UsageError("the request - reads stdin, which is closed")
    return sys.stdin.buffer.read().decode("utf-8", "replace")
