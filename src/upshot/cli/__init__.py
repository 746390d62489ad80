"""The ``upshot`` command: arguments and printing only."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from upshot.errors import need_of_extra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What stands after ``upshot``; None takes it from ``sys.argv``.

    Returns:
        The exit code: 0 completed, 1 failed or aborted, 2 misuse, 3 input_required,
        4 interrupted, 5 canceled. A command that runs no agent gives 0 or 2.
    """
    for package in ("click", "rich"):
        if importlib.util.find_spec(package) is None:
            sys.stderr.write(f"upshot: {need_of_extra('the command', 'cli')}\n")
            return 2
    try:
        from upshot.cli.commands import invoke
    except KeyboardInterrupt:
        # Loading takes long enough for a Ctrl-C to come in.
        return 4

    return invoke(sys.argv[1:] if arguments is None else list(arguments))
