"""What commands share: common options, and how a command is carried out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import redirect_stdout
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

import click

from upshot.cli.loading import Asked
from upshot.cli.lookup import DEFAULT_JOURNAL, check_run_id, read_inputs, standard_input, user_name
from upshot.cli.report import Shown
from upshot.cli.terminal import Terminal
from upshot.contract.base.checks import nearest
from upshot.contract.model_calls import Request
from upshot.entry.api import run_in_own_loop
from upshot.journal.audit import Actor, acting

F = TypeVar("F", bound=Callable[..., int])


class Group(click.Group):
    """The commands by name; an unknown name gets a suggestion."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* start with."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            near = " or ".join(nearest(name, names, count=3))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise click.UsageError(f"there is no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


def text(
    option: str,
    metavar: str,
    help: str,
    *,
    name: str | None = None,
    type: Any = None,
    default: str = "",
) -> Callable[[F], F]:
    """Return an option that takes a text; *name* is the parameter's."""
    names = [option] if name is None else [option, name]
    return click.option(*names, default=default, metavar=metavar, type=type, help=help)


def flag(option: str, help: str, *, name: str | None = None) -> Callable[[F], F]:
    """Return an option that takes no value."""
    return click.option(*([option] if name is None else [option, name]), is_flag=True, help=help)


def seconds(option: str, help: str, *, name: str, default: float | None) -> Callable[[F], F]:
    """Return an option that takes seconds, at least 0."""
    kind = click.FloatRange(min=0)
    return click.option(option, name, type=kind, default=default, metavar="SECONDS", help=help)


def number(
    option: str,
    help: str,
    *,
    least: int,
    most: int | None = None,
    name: str | None = None,
    metavar: str = "N",
    **more: Any,
) -> Callable[[F], F]:
    """Return an option that takes a whole number; *more* is for ``click.option``."""
    names = [option] if name is None else [option, name]
    kind = _number_from(least, most)
    return click.option(*names, type=kind, metavar=metavar, help=help, **more)


def _number_from(least: int, most: int | None) -> Callable[[str], int]:
    """Return the type of an option that takes a whole number."""
    bounds = f"from {least}" + (" on" if most is None else f" to {most}")

    def number(text: str) -> int:
        try:
            read = int(text)
        except ValueError:
            read = least - 1
        if read < least or (most is not None and read > most):
            raise click.BadParameter(f"{text} is not a whole number {bounds}")
        return read

    return number


def choice(
    option: str, words: Sequence[str], help: str, *, default: str | None = None
) -> Callable[[F], F]:
    """Return an option that takes one of some words."""
    kind = click.Choice(words)
    return click.option(option, type=kind, default=default, show_default=True, help=help)


# Checks nothing; it makes shells complete file names.
PATH = click.Path()
RUN = click.argument("wanted", metavar="RUN")
HOST = click.option(
    "--host", default="127.0.0.1", metavar="HOST", help="Where, 127.0.0.1 by default."
)
AGENT = click.argument("target", metavar="[FILE.py:AGENT]", default="", type=PATH)
TOOLS = click.option(
    "--tools",
    multiple=True,
    type=PATH,
    metavar="FILE.py",
    help="A file with the tools, functions and agents that FILE names; can be repeated.",
)
JOURNAL = click.option(
    "--journal",
    default=DEFAULT_JOURNAL,
    type=PATH,
    metavar="FILE|URL",
    envvar="UPSHOT_JOURNAL",
    show_default=True,
    show_envvar=True,
    help="The log of runs: a file, or postgresql://user@host/database.",
)
APP = click.argument("target", metavar="FILE.py[:APP]")
JOURNAL_OF_APP = click.option(
    "--journal",
    default="",
    type=PATH,
    metavar="FILE|URL",
    envvar="UPSHOT_JOURNAL",
    show_envvar=True,
    help=f"The log of runs. Default: the App's, else {DEFAULT_JOURNAL}.",
)
JSON = flag("--json", "Print JSON and nothing else.", name="as_json")
ANSWER = click.option(
    "--answer", multiple=True, type=(str, str), metavar="ID TEXT", help="Answer a question."
)
STREAM = flag("--stream", "Print text as it arrives.")
MARKDOWN = flag("--markdown", "Render the answer as Markdown on a terminal.")
TAKE_OVER = flag("--take-over", "Claim the run even from a living process.")
PROGRESS = click.option(
    "--progress",
    type=click.Choice(["auto", "live", "lines", "none"]),
    default="auto",
    help="Show progress on stderr. Default: live on a terminal, else none.",
)


def names_agent(work: F) -> F:
    """Add the options that name a run's agent; together with the target they become ``asked``."""

    @text(
        "--model",
        "NAME",
        "provider:model; sim:FILE plays a scenario, scripted:FILE a list of replies. "
        "Default: the agent's own.",
    )
    @text("--base-url", "URL", "Another server that speaks the provider's API.")
    @TOOLS
    @text(
        "--mcp",
        "FILE",
        "An mcpServers file, as other MCP clients keep it: the agent gets the servers' tools.",
        type=PATH,
    )
    @text(
        "--dependencies",
        "FILE.py:NAME",
        "What its tools get as context.dependencies: a value, or a function that makes it.",
        type=PATH,
    )
    @seconds(
        "--write-grace",
        "How long a write in progress may continue after Ctrl-C. Default: 10.",
        name="write_grace_s",
        default=None,
    )
    @wraps(work)
    def command(**options: Any) -> int:
        asked = {name: options.pop(name) for name in Asked.__dataclass_fields__}
        return work(asked=Asked(**asked), **options)

    return cast("F", command)


def asks(work: F) -> F:
    """Pass the request, with its inputs and the id of the run, as ``request``."""

    @click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        help="A variable that the run starts with; VALUE is JSON, or else a string. Can be "
        "repeated.",
    )
    @text("--run-id", "ID", "The id of the run.")
    @wraps(work)
    def command(*, text: str, inputs: tuple[str, ...], run_id: str, **options: Any) -> int:
        check_run_id(run_id)
        # Read here: within the event loop Ctrl-C would not end it.
        text = standard_input() if text == "-" else text
        request = Request(text, inputs=read_inputs(inputs), run_id=run_id)
        return work(request=request, **options)

    return cast("F", command)


def signs_in(work: F) -> F:
    """Pass the options of a sign-in at an OpenID provider as ``provider``."""

    @text("--oidc", "ISSUER", "Sign users in at this OpenID provider.", name="issuer")
    @text("--client-id", "ID", "The site at the provider; its secret is UPSHOT_OIDC_SECRET.")
    @click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="ROLE=GROUP",
        help="Such as operate=ops or answer:tool/refund=payments; * is every account. Repeatable.",
    )
    @text("--roles-claim", "CLAIM", "Has the groups, groups by default.", default="groups")
    @text("--user-claim", "CLAIM", "Becomes the user's id, sub by default.", default="sub")
    @text("--tenant-claim", "CLAIM", "Has the user's tenant; users have none by default.")
    @wraps(work)
    def command(*, roles: tuple[str, ...], **options: Any) -> int:
        names = ("issuer", "client_id", "roles_claim", "user_claim", "tenant_claim")
        provider = {name: options.pop(name) for name in names}
        return work(provider={**provider, "roles": roles}, **options)

    return cast("F", command)


def shows_run(work: F) -> F:
    """Pass the options for how a run is shown as ``shown``."""

    @wraps(work)
    def command(
        *,
        as_json: bool,
        progress: str,
        stream: bool = False,
        markdown: bool = False,
        **others: Any,
    ) -> int:
        if stream and as_json:
            raise click.UsageError("--stream and --json exclude each other")
        shown = Shown(stream=stream, markdown=markdown, progress=progress)
        return work(shown=shown, as_json=as_json, **others)

    return cast("F", command)


def run_command(
    work: Callable[..., Coroutine[Any, Any, int] | int], *, as_json: bool = False, **options: Any
) -> int:
    """Carry a command out, in an event loop of its own if it is a coroutine function."""
    terminal = Terminal(as_json=as_json)
    # What an agent's file or its tools print must not mix with the answers.
    # Whoever works on runs or serves them says so again: those are acts of others.
    with redirect_stdout(sys.stderr), acting(Actor(user=user_name(), door="cli")):
        if iscoroutinefunction(work):
            return run_in_own_loop(lambda: work(terminal, **options))
        return cast("int", work(terminal, **options))
