"""What a person types: a line, or a yes."""

from __future__ import annotations

import signal
import sys

__all__ = ["agree", "ask"]


def ask(question: str) -> str:
    """Read a line from the terminal, or from a pipe.

    Raises:
        EOFError: There is none any more.
    """
    line = input(question)
    if not sys.stdin.isatty():
        print(line, flush=True)  # nobody saw it being typed
    return line


def agree(question: str) -> bool:
    """Whether the answer is a yes; Ctrl-C and the end of the input are a no.

    An event loop that handles Ctrl-C takes it away from `input`, which would go on waiting. So for
    as long as this waits it ends the waiting, and the loop hears of it all the same.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return ask(f"{question} [y/N] ").lower().startswith("y")
    except (EOFError, KeyboardInterrupt):
        print(flush=True)
        return False
    finally:
        signal.signal(signal.SIGINT, before)
