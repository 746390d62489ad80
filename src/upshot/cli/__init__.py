"""The ``upshot`` command: arguments and printing only.

Everything that a command does is a call of the public API; this package reads arguments, finds
files and runs, and lays results out on a terminal. The parts:

- ``commands`` declares each command with its options and passes them to the function that carries
  it out, in ``running``, ``approve``, ``listing``, ``app_runs`` or ``documents``.
- ``lookup`` finds journals and runs by what the user typed. ``loading`` imports agents, tools and
  machines from files, and records how a run was started, so that it can be resumed by its id.
- ``state.activity`` turns events into rows; ``timeline`` draws rows, ``report`` and ``listing``
  whole pages, ``terminal`` holds the two streams. ``documents`` checks and draws files.

How a run gets on the screen: its events, live or from its log, go one by one into an ``Activity``.
That keeps the order and the texts of the rows. Everything else (time, usage, questions, answers)
comes from the ``RunState`` of the same events, which is the only fold of the log. So a live run
and ``upshot show`` cannot disagree.

Invariants:

- Answers go to stdout, everything else to stderr; ``--json`` prints one JSON value and no text.
- Text from models, tools and files is cleaned of control characters before it is printed.
- The exit code says how the run ended (see ``main``). A mistake of the user is ``Misuse`` and is
  shown as one line, never as a traceback. A reader that closes its pipe is not an error.
- The log never holds a key: a model is logged by its name, and the key is read again.

Traps: a log does not say whether the process that works on a run is still alive;
``status_words`` asks the lease holder. An answer for a child run is in the child's log, so the
parent's log does not show it. Ids of questions are unique within one run only, so they are always
paired with the run that asks.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from upshot.errors import need_of_extra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments after ``upshot``; None takes them from ``sys.argv``.

    Returns:
        The exit code: 0 completed, 1 failed or aborted, 2 misuse, 3 input_required,
        4 interrupted, 5 canceled. Commands that run no agent return 0 or 2, ``replay`` also 1.
    """
    for package in ("click", "rich"):
        if importlib.util.find_spec(package) is None:
            sys.stderr.write(f"upshot: {need_of_extra('the command', 'cli')}\n")
            return 2
    try:
        from upshot.cli.commands import invoke
    except KeyboardInterrupt:
        # Loading takes long enough for Ctrl-C to be pressed.
        return 4

    return invoke(sys.argv[1:] if arguments is None else list(arguments))
