"""Options that several subcommands have, with one meaning in each."""

from __future__ import annotations

import click

from .run_lookup import DEFAULT_JOURNAL

__all__ = [
    "ANSWER",
    "BASE_URL",
    "JOURNAL",
    "JSON",
    "MARKDOWN",
    "MODEL",
    "PATH",
    "PROGRESS",
    "TAKE_OVER",
    "TOOLS",
]

# Nothing is checked of it here: it is what has a shell complete the names of files.
PATH = click.Path()
MODEL = click.option(
    "--model",
    default="",
    metavar="NAME",
    help="provider:model; sim:FILE plays a scenario, scripted:FILE a list of replies. Default: the "
    "agent's own.",
)
BASE_URL = click.option(
    "--base-url",
    default="",
    metavar="URL",
    help="Another server that speaks the provider's API.",
)
TOOLS = click.option(
    "--tools",
    multiple=True,
    type=PATH,
    metavar="FILE.py",
    help="Where the tools, functions and agents are that a file names; may be given again.",
)
JOURNAL = click.option(
    "--journal",
    default=DEFAULT_JOURNAL,
    type=PATH,
    metavar="FILE",
    envvar="UPSHOT_JOURNAL",
    show_default=True,
    show_envvar=True,
    help="The log of runs.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
ANSWER = click.option(
    "--answer", multiple=True, type=(str, str), metavar="ID TEXT", help="Answer a question."
)
MARKDOWN = click.option("--markdown", is_flag=True, help="Lay the answer out on a terminal.")
TAKE_OVER = click.option(
    "--take-over", is_flag=True, help="Take the run also from another process that lives."
)
PROGRESS = click.option(
    "--progress",
    type=click.Choice(["auto", "live", "lines", "none"]),
    default="auto",
    help="Tell what is done, on stderr. Default: live on a terminal, else none.",
)
