"""Conclusion: the result of a run as the command prints it."""

from __future__ import annotations

import shlex
from typing import Any

from rich.markdown import Markdown
from rich.text import Text

from ..contract import AgentResult, Status, encode
from .figures import clean_lines, count, duration, money, tokens
from .glyphs import glyphs_for
from .report import answer_text, error_text, status_style
from .run_lookup import DEFAULT_JOURNAL
from .terminal import Terminal

__all__ = ["command_line", "print_answer", "print_result"]


def print_result(
    result: AgentResult[Any],
    terminal: Terminal,
    *,
    journal: str,
    as_json: bool = False,
    streamed: bool = False,
    markdown: bool = False,
    summary: bool = True,
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
    """
    if as_json:
        terminal.put_json(encode(result))
    elif not streamed:
        print_answer(
            result.output if result.success else result.content, terminal, markdown=markdown
        )
    if result.error is not None:
        terminal.tell(
            Text(f"{result.status}: {error_text(result.error)}", status_style(result.status))
        )
        terminal.tell(Text(_what_next(result, journal)))
    elif summary:
        terminal.tell("", _summary(result, terminal))


def print_answer(output: object, terminal: Terminal, *, markdown: bool = False) -> None:
    """Print an answer on stdout; nothing where there is none."""
    text = answer_text(output)
    if markdown and terminal.out.is_terminal:
        terminal.say(Markdown(clean_lines(text)))
    elif text:
        terminal.put(text if text.endswith("\n") else text + "\n")


def command_line(*words: str, journal: str) -> str:
    """An ``upshot`` command as it can be typed, with the journal where it is not the default."""
    named = () if journal == DEFAULT_JOURNAL else ("--journal", journal)
    return shlex.join(("upshot", *words, *named))


def _what_next(result: AgentResult[Any], journal: str) -> str:
    if result.status is Status.INPUT_REQUIRED:
        return f"it waits for people: {command_line('approve', result.run_id, journal=journal)}"
    return f"what happened: {command_line('show', result.run_id, journal=journal)}"


def _summary(result: AgentResult[Any], terminal: Terminal) -> Text:
    dot = f" {glyphs_for(terminal.err.encoding).dot} "
    figures = (
        duration(result.duration_ms / 1000),
        f"{tokens(result.usage)} tokens",
        f"cost {money(result.cost)}",
        count(len(result.tool_records), "tool call"),
    )
    return Text.assemble(
        (str(result.status), status_style(result.status)), (dot + dot.join(figures), "dim")
    )
