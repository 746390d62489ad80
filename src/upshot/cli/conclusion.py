"""Conclusion: the result of a run as the command prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.markdown import Markdown
from rich.text import Text

from ..contract import AgentError, AgentResult, Status, encode
from .command_line import command_line
from .figures import clean_lines, count, duration, money, tokens
from .glyphs import glyphs_for
from .report import answer_text, error_text, pending_text, status_style, trail_text
from .run_lookup import MEMORY
from .terminal import Terminal

__all__ = ["print_answer", "print_result"]

_MAX_TOLD = 3


def print_result(
    result: AgentResult[Any],
    terminal: Terminal,
    *,
    journal: str,
    as_json: bool = False,
    streamed: bool = False,
    markdown: bool = False,
    summary: bool = True,
    fork_at: int = 0,
    worked_s: float | None = None,
) -> None:
    """Print what came of a run: its answer on stdout, the rest on stderr.

    Args:
        result: What came of it.
        terminal: Where to print.
        journal: The journal as the user named it, for the commands that are shown.
        as_json: Print the whole result as one line of JSON instead of the answer.
        streamed: The answer was written as it came.
        markdown: Lay the answer out where stdout is a terminal.
        summary: Tell figures where stderr is a terminal, also if all went well.
        fork_at: From which event a run that was stopped can go on as another; 0 is from none.
        worked_s: Seconds of work to tell, without those in which it waited; None is all of the
            time since it began.
    """
    if as_json:
        terminal.put_json(encode(result))
    elif not streamed:
        print_answer(
            result.output if result.success else result.content, terminal, markdown=markdown
        )
    if result.error is not None:
        style = status_style(result.status)
        terminal.tell(*(Text(line, style) for line in _what_came(result, result.error)))
        terminal.hint(*_what_next(result, journal, fork_at))
    elif summary:
        terminal.tell("", _summary(result, terminal, worked_s))


def print_answer(output: object, terminal: Terminal, *, markdown: bool = False) -> None:
    """Print an answer on stdout; nothing where there is none."""
    text = answer_text(output)
    if markdown and terminal.out.is_terminal:
        terminal.say(Markdown(clean_lines(text)))
    elif text:
        terminal.put(text if text.endswith("\n") else text + "\n")


def _what_came(result: AgentResult[Any], error: AgentError) -> Iterator[str]:
    """The status and the error, each word once; what is waited for where that is all."""
    for pending in result.pending[:_MAX_TOLD]:
        yield f"waits for {pending_text(pending)}"
    if len(result.pending) > _MAX_TOLD:
        yield f"and for {len(result.pending) - _MAX_TOLD} more"
    if not result.pending:
        same = error.code == result.status
        yield f"{'' if same else f'{result.status}: '}{error_text(error, result.status)}"
        if where := trail_text(error):
            yield where


def _what_next(result: AgentResult[Any], journal: str, fork_at: int) -> Iterator[str]:
    """The commands that lead on from here; none where no log was kept."""
    if journal == MEMORY:
        return
    if result.status is Status.INPUT_REQUIRED:
        yield f"it waits for people: {command_line('approve', result.run_id, journal=journal)}"
        return
    yield f"what happened: {command_line('show', result.run_id, journal=journal)}"
    if fork_at and result.status in (Status.INTERRUPTED, Status.CANCELED):
        words = ("fork", result.run_id, "--at", str(fork_at))
        yield f"go on from there, as a new run: {command_line(*words, journal=journal)}"


def _summary(result: AgentResult[Any], terminal: Terminal, worked_s: float | None) -> Text:
    dot = f" {glyphs_for(terminal.err.encoding).dot} "
    figures = (
        duration(result.duration_ms / 1000 if worked_s is None else worked_s),
        f"{tokens(result.usage)} tokens",
        f"cost {money(result.cost)}",
        count(len(result.tool_records), "tool call"),
    )
    return Text.assemble(
        (str(result.status), status_style(result.status)), (dot + dot.join(figures), "dim")
    )
