"""Subcommands and their options.

An option has the name of a parameter of the function that carries the command out, so most commands
pass all of theirs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from upshot.cli import app_runs, documents, effect_list, listing, pruning, running
from upshot.cli.approve import Given, answer_run
from upshot.cli.chat import chat_with_agent
from upshot.cli.journal_commands import health, index, journal, salvage
from upshot.cli.options import (
    AGENT,
    ANSWER,
    APP,
    HOST,
    JOURNAL,
    JOURNAL_OF_APP,
    JSON,
    MARKDOWN,
    PATH,
    PROGRESS,
    RUN,
    STREAM,
    TAKE_OVER,
    TOOLS,
    F,
    Group,
    asks,
    choice,
    flag,
    names_agent,
    number,
    run_command,
    seconds,
    shows_run,
    signs_in,
    text,
)
from upshot.cli.report import Shown
from upshot.cli.terminal import EXIT_CODES, MISUSE, Terminal
from upshot.contract.base.enums import EFFECTS, Status
from upshot.errors import JournalError, Misuse
from upshot.journal.audit import KINDS
from upshot.journal.run_list import SORTS
from upshot.sim.simulator import Simulator, serve_forever, until_signal
from upshot.version import __version__


def invoke(arguments: Sequence[str]) -> int:
    """Run the command; wrong input becomes one sentence on stderr.

    Args:
        arguments: The arguments after ``upshot``.

    Returns:
        The exit code.
    """
    try:
        code = upshot.main(list(arguments), "upshot", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        return _complain(error.format_message())
    except click.UsageError as error:
        path = _asked_for(arguments) if error.ctx is None else error.ctx.command_path
        return _complain(f"upshot: {error.format_message().rstrip('.')} (see {path} --help)")
    except (click.ClickException, Misuse, JournalError) as error:
        return _complain(f"upshot: {error}")
    except (KeyboardInterrupt, click.Abort):
        return EXIT_CODES[Status.INTERRUPTED]
    return code if isinstance(code, int) else 0


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="upshot %(version)s")
def upshot() -> None:
    """Run AI agents; whatever happens comes back as one result.

    Exit codes: 0 completed, 1 failed or aborted, 2 misuse, 3 waits for an answer,
    4 interrupted, 5 canceled.
    """


@upshot.command(short_help="Run an agent on a request.")
@click.argument("target", metavar="FILE.py:AGENT", type=PATH)
@click.argument("text", metavar="[REQUEST]", default="")
@names_agent
@JOURNAL
@asks
@STREAM
@MARKDOWN
@JSON
@PROGRESS
@shows_run
def run(**options: Any) -> int:
    """Run an agent on REQUEST; its answer goes to stdout.

    The agent is FILE.py:AGENT, FILE.py if there is only one in it, or an agent or a machine in
    JSON or YAML. REQUEST - reads it from stdin; a machine, or an agent with an engine of its own,
    needs none. The log makes the run resumable; --journal memory: keeps none.
    """
    return run_command(running.run_agent, **options)


@upshot.command(short_help="Talk with an agent, line by line.")
@click.argument("target", metavar="FILE.py:AGENT", type=PATH)
@names_agent
@JOURNAL
@text("--conversation", "ID", "The conversation to start or continue. Default: a new one.")
@MARKDOWN
@PROGRESS
def chat(*, markdown: bool, progress: Any, **options: Any) -> int:
    """Talk with an agent: each line is a turn of one conversation, which the log keeps.

    Questions of a turn are asked at once. An empty line, Ctrl-D, or Ctrl-C at the prompt ends the
    chat; Ctrl-C in a turn stops the turn.
    """
    shown = Shown(stream=True, markdown=markdown, progress=progress)
    return run_command(chat_with_agent, shown=shown, **options)


@upshot.command(short_help="Continue a run that died or waits.")
@RUN
@AGENT
@names_agent
@JOURNAL
@ANSWER
@STREAM
@MARKDOWN
@JSON
@TAKE_OVER
@flag("--continue-stopped", "Also continue a run that was stopped, as by Ctrl-C.")
@PROGRESS
@shows_run
def resume(*, answer: tuple[tuple[str, str], ...], continue_stopped: bool, **options: Any) -> int:
    """Continue a RUN that waits or whose process died; finished calls are not repeated.

    RUN is an id, the start of one, or last. The run keeps its agent and model unless you name
    others. If it has ended, its result is printed; with --continue-stopped, an interrupted or
    canceled run is continued. To answer anything but questions, use approve.
    """
    if answer:
        if continue_stopped:
            raise Misuse("a run that was stopped waits for no --answer: leave one of the two out")
        return run_command(answer_run, given=Given(answer=answer), goes_on=True, **options)
    return run_command(running.resume_agent, continue_stopped=continue_stopped, **options)


@upshot.command(short_help="Stop a run, whichever process works on it.")
@click.argument("wanted", metavar="RUN...", nargs=-1, required=True)
@flag("--now", "Cancel it, and wait for its end.")
@text("--reason", "TEXT", "Why, for its log; not with --now.")
@JOURNAL
@JSON
def stop(**options: Any) -> int:
    """Stop RUN at its next safe point, whichever process works on it; no agent is needed.

    RUN is an id, the start of one, or last. With --now it is canceled, even if it is queued or
    parked, or its process died. A canceled turn no longer blocks its conversation.
    """
    return run_command(running.stop_runs, **options)


@upshot.command("signal", short_help="Send a signal to a run that waits for one.")
@RUN
@click.argument("name", metavar="NAME")
@click.argument("value", metavar="[JSON]", default="null")
@text("--key", "KEY", "A second signal with the same key is not delivered.")
@text("--by", "NAME", "Who sends it.")
@JOURNAL
@JSON
def send_signal(**options: Any) -> int:
    """Send the signal NAME to RUN, with a JSON value; a value that is not JSON is sent as text.

    RUN is an id, the start of one, or last. The signal is kept until the run waits for it.
    """
    return run_command(running.signal_run, **options)


@upshot.command("submit", short_help="Submit a run for a worker.")
@click.argument("target", metavar="FILE.py[:NAME]", type=PATH)
@click.argument("text", metavar="REQUEST")
@text("--agent", "ID", "The agent of the App.")
@text("--conversation", "ID", "The conversation that it is a turn of.")
@text("--at", "MOMENT", "When it becomes due, such as 2027-01-31T08:00.")
@text("--key", "KEY", "The same key returns the same run.")
@click.option("--priority", default=0, type=int, metavar="N", help="Higher priorities come first.")
@asks
@JOURNAL_OF_APP
@JSON
def submit(**options: Any) -> int:
    """Put REQUEST into the journal for a worker, and print the id of its run.

    FILE.py means its app, else its only App or agent. REQUEST - reads it from stdin.
    """
    return run_command(app_runs.submit_run, **options)


def notifies(command: F) -> F:
    """Add the options of a command that notifies an address of items that wait for people."""
    url = text("--notify-url", "URL", "Send inbox items there, signed with UPSHOT_NOTIFY_KEY.")
    console = text("--console-url", "URL", "The address of the console for people.")
    return url(console(command))


def reports_status(command: F) -> F:
    """Add the options of a process that runs for long."""
    status = text(
        "--status",
        "HOST:PORT",
        "Serve /health, /ready and /metrics there; a private address, since nobody signs in.",
        name="status_at",
    )
    return status(
        flag("--log-json", "Log as JSON, with the ids of runs; or UPSHOT_LOG=json.")(command)
    )


@upshot.command(short_help="Work on the runs that are submitted to an App.")
@APP
@JOURNAL_OF_APP
@number("--concurrency", "Runs at once, 50 by default.", least=1, default=50)
@seconds(
    "--grace",
    "How long current steps may continue after a signal, 25 by default.",
    name="grace_s",
    default=25.0,
)
@seconds(
    "--park-over",
    "Release a run that only waits, if for longer than this, 5 by default.",
    name="park_over_s",
    default=5.0,
)
@flag("--only-same-version", "Leave runs alone that started with other code.")
@flag("--fed", "Used internally: a worker starts processes for single runs so.", name="is_fed")
@flag("--list", "Print the runs that are worked on or due, and exit.", name="lists")
@notifies
@reports_status
def work(**options: Any) -> int:
    """Work on the due runs of an App until SIGTERM or Ctrl-C.

    Then it claims nothing more, lets current steps finish, and leaves the rest to other workers.
    The exit code is 0 if every run was released.
    """
    return run_command(app_runs.work_on_app, **options)


@upshot.command(short_help="List the schedules of an App.")
@APP
@JOURNAL_OF_APP
@JSON
def schedules(**options: Any) -> int:
    """List when each schedule of an App runs next, its last run, and what was missed since then.

    Workers submit these runs; without one, nothing is submitted.
    """
    return run_command(app_runs.list_schedules, **options)


@upshot.command(short_help="Serve the console and the protocols of an App.")
@APP
@JOURNAL_OF_APP
@HOST
@number("--port", "The port, 8321 by default; 0 takes a free one.", least=0, default=8321)
@flag("--no-work", "Leave the runs to workers.")
@flag("--open", "Open the console in the browser.", name="opens")
@flag("--sign-out", "End the sign-ins of all browsers first.", name="signs_out")
@text("--trace-url", "URL", "The address of a run's spans, with {run_id} in it.")
@text("--lab", "FILE", "The journal of experiments to show, lab.db by default.", default="lab.db")
@text("--datasets", "FOLDER", "Where runs are collected, datasets by default.", default="datasets")
@signs_in
@notifies
@reports_status
def serve(**options: Any) -> int:
    """Serve the console, the inbox and the protocols of an App, until SIGTERM or Ctrl-C.

    It prints a link that signs in one browser, once, for 30 days or until --sign-out; with --oidc
    users sign in at an OpenID provider instead.
    """
    return run_command(app_runs.serve_app, **options)


@upshot.command(short_help="Serve the agents of an App as MCP tools.")
@APP
@JOURNAL_OF_APP
@flag("--no-work", "Leave the runs to workers.")
def mcp(**options: Any) -> int:
    """Serve the agents of an App as MCP tools over standard input and output.

    An MCP client starts it, and it ends when the client closes the input. Runs in progress then
    stay in the journal, and continue when it is started again.
    """
    return run_command(app_runs.serve_mcp, **options)


@upshot.command(short_help="Stand between MCP clients and MCP servers.")
@click.argument("file", metavar="FILE")
@text("--as", "NAME", "The user who makes the calls.", name="user")
@flag("--check", "Print what will happen to each tool.", name="checks")
@HOST
@number(
    "--port",
    "Serve over HTTP at this port, 0 for a free one; else over standard input and output.",
    least=0,
)
@reports_status
def gateway(**options: Any) -> int:
    """Run a gateway between MCP clients and the MCP servers that FILE names.

    Calls of tools go through approvals, conditions and effects that are made once, as FILE says;
    everything else passes through. An MCP client starts it, or reaches it over HTTP.
    """
    return run_command(app_runs.run_gateway, **options)


@upshot.command(short_help="Start a new run from a point of another one.")
@RUN
@number("--at", "The last event to keep.", least=0, metavar="EVENT", required=True)
@flag("--due", "Let a worker continue it.", name="is_due")
@JOURNAL
@JSON
def fork(**options: Any) -> int:
    """Start a new run from an event of RUN, which stays as it is; print the new run's id.

    RUN is an id, the start of one, or last.
    """
    return run_command(running.fork_run, **options)


@upshot.command(short_help="Run an agent against the record of a run.")
@RUN
@AGENT
@names_agent
@JOURNAL
@JSON
def replay(**options: Any) -> int:
    """Run the agent of RUN against its record; print the first difference.

    RUN's agent and model are used unless you name others. No model and no tool is called, and
    nothing is written. The exit code is 1 if there is a difference.
    """
    return run_command(running.replay_run, **options)


@upshot.command()
@RUN
@AGENT
@click.option("--approve", multiple=True, metavar="ID", help="Approve this call.")
@flag("--all", "Approve all calls that are not named.", name="approve_all")
@choice("--always", ("tool", "arguments"), "The scope of a standing approval.")
@click.option("--deny", multiple=True, metavar="ID", help="Deny this call.")
@text("--reason", "TEXT", "The reason of a denial, for the model.")
@click.option(
    "--edit", multiple=True, type=(str, str), metavar="ID JSON", help="Run it with these arguments."
)
@ANSWER
@text("--by", "NAME", "Who answers. Default: the user.")
@click.option("--resume/--no-resume", "goes_on", default=None, help="Whether to continue the run.")
@names_agent
@JOURNAL
@JSON
@TAKE_OVER
@PROGRESS
@shows_run
def approve(**options: Any) -> int:
    """Show what RUN waits for, read answers, and continue it.

    RUN is an id, the start of one, or last. An ID is the id of a call or question, the start of
    it, or its number; --approve, --deny, --edit and --answer can be repeated. Without any of
    them, you are asked on a terminal.
    """
    given = Given(**{field: options.pop(field) for field in Given.__dataclass_fields__})
    return run_command(answer_run, given=given, **options)


@click.command(short_help="List what waits for answers, and answer it.")
@text("--conversation", "ID", "Only items of this conversation.")
@number(
    "--limit",
    "The items of at most this many runs, 0 for all.",
    least=0,
    default=20,
    show_default=True,
)
def inbox(*, wanted: str, conversation: str, limit: int, **options: Any) -> int:
    """List what waits for answers; with RUN, show it and answer it as approve does."""
    if wanted:
        context = click.get_current_context()
        return context.invoke(approve, wanted=wanted, **options)
    given = {name: options[name] for name in ("journal", "as_json")}
    return run_command(listing.list_inbox, conversation=conversation, limit=limit, **given)


# The options of approve, and the defaults that they come with.
_OWN = click.Argument(["wanted"], metavar="[RUN]", default="")
inbox.params = [_OWN, *approve.params[1:], *inbox.params]
upshot.add_command(inbox)


@upshot.command(short_help="Show all of a run: facts, timeline, answer.")
@RUN
@JOURNAL
@click.option("--answer/--no-answer", default=True, help="Print the answer at the end.")
@flag("--events", "List the events, with their numbers, instead.")
@text("--html", "FILE", "Write the page of the run instead.")
@flag("--public", "With --html: only what may be public.")
@text("--without", "PARTS", "With --html: leave out arguments, results, text; separate by commas.")
@MARKDOWN
@JSON
def show(**options: Any) -> int:
    """Show all that the log has of RUN: facts, a timeline with bars, the answer.

    With --events it lists what was logged: arguments and results of calls, who answered what and
    when. With --html it writes one file that any browser opens. RUN is an id, the start of one,
    or last.
    """
    return run_command(listing.show_run, **options)


# Each named as journal.runs() takes it; moments are read from text.
_FILTERS = (
    click.Option(["--agent", "agent_id"], metavar="ID", help="Only runs of this agent."),
    click.Option(
        ["--conversation", "context_id"], metavar="ID", help="Only runs of this conversation."
    ),
    click.Option(
        ["--effect"],
        type=click.Choice([one.value for one in EFFECTS]),
        help="Only runs with this worst effect.",
    ),
    click.Option(["--error-code"], metavar="CODE", help="Only runs that failed with this code."),
    click.Option(["--owner"], metavar="USER", help="Only runs of this user; see --tenant."),
    click.Option(["--tenant"], metavar="TENANT", help="Only runs of this tenant."),
    click.Option(["--tool"], metavar="NAME", help="Only runs that called this tool."),
    click.Option(["--text"], metavar="TEXT", help="Only runs with it in request or answer."),
    click.Option(["--since"], metavar="MOMENT", help="From this moment, such as 2027-01-31T08:00."),
    click.Option(["--until"], metavar="MOMENT", help="Before this moment."),
    click.Option(["--sort"], type=click.Choice([*SORTS]), help="Largest first, by this."),
)


@upshot.command()
@JOURNAL
@choice("--status", listing.STATUSES, "Only runs with this status.")
@number("--limit", "The maximum number, 0 for all.", least=0, default=50, show_default=True)
@number("--width", "Columns of a line. Default: the terminal's; a pipe gets whole lines.", least=40)
@flag("--conversations", "List conversations instead of runs.")
@JSON
def runs(*, conversations: bool, status: str | None, width: int | None, **options: Any) -> int:
    """List the runs of a log, newest first, or its conversations."""
    found = {one.opts[0]: (str(one.name), options.pop(str(one.name))) for one in _FILTERS}
    given = {option: (name, value) for option, (name, value) in found.items() if value}
    if not conversations:
        filters = dict(given.values())
        return run_command(
            listing.list_runs, status=status, width=width, filters=filters, **options
        )
    own = {"--status": status, "--width": width}
    for option in (*(name for name, value in own.items() if value is not None), *given):
        raise click.UsageError(f"{option} filters runs: leave it out with --conversations")
    return run_command(listing.list_conversations, **options)


runs.params[2:2] = _FILTERS


@upshot.group(cls=Group, invoke_without_command=True, short_help="List effects, and settle them.")
@flag("--unknown", "Only unknown effects.")
@text("--tool", "NAME", "Only effects of this tool.")
@text("--key", "KEY", 'Such as 7, or \'{"order_id":"7"}\'.')
@text("--run", "RUN", "Only effects of this run.", name="wanted")
@number("--limit", "The maximum number, 0 for all.", least=0, default=50, show_default=True)
@JOURNAL
@JSON
@click.pass_context
def effects(context: click.Context, **options: Any) -> int:
    """List the effects that a log knows: the unknown ones first, with their age.

    RUN is an id, the start of one, or last.
    """
    if context.invoked_subcommand is None:
        return run_command(effect_list.list_effects, **options)
    return 0


@effects.command(short_help="Settle unknown effects.")
@click.argument("wanted", metavar="ID|KEY...", nargs=-1, required=True)
@flag("--applied", "It happened.")
@flag("--none", "It did not happen; its key is free again.")
@text("--by", "NAME", "Who found out. Default: the user.")
@text("--note", "TEXT", "What they saw.")
@JOURNAL
@JSON
def settle(**options: Any) -> int:
    """Say whether unknown effects happened; the first answer counts.

    ID is an id that effects lists, or its start; KEY is enough if only one unknown effect has it.
    """
    return run_command(effect_list.settle_effects, **options)


@effects.command("check", short_help="Call the tool's verify about an unknown effect.")
@click.argument("wanted", metavar="ID|KEY")
@APP
@JOURNAL_OF_APP
@JSON
def verify(**options: Any) -> int:
    """Call the verify of the App's tool about an unknown effect, and settle it with the answer.

    The exit code is 1 if it is still unknown. Workers do this repeatedly in the background.
    """
    return run_command(effect_list.check_effect, **options)


@effects.command(short_help="Print receipts of effects, or check a file of them.")
@text("--since", "DAY", "Only effects since this day or moment, in UTC.")
@text("--verify", "FILE", "Check these receipts; print none.", type=PATH)
@text("--anchor", "FILE", "Add the head to this file; with --verify, look for it there.", type=PATH)
@JOURNAL
def export(**options: Any) -> int:
    """Print a line of JSON for each effect, each with the digest of the one before it.

    With --verify it exits with 1 if a line was changed, moved, left out or put in.
    """
    return run_command(effect_list.export_effects, **options)


@upshot.group(cls=Group, short_help="Try agents on past runs, without any effect.")
def lab() -> None:
    """Try agents on past runs: models are asked, tools answer from the record."""


_LAB_SECRETS = text("--secrets", "FILE", "Texts to mask, one a line.", type=PATH)


@lab.command(short_help="Write past runs into a dataset.")
@click.argument("path", metavar="DATA.jsonl", type=PATH)
@text("--agent", "ID", "Only runs of this agent.", name="agent_id")
@text("--note", "NAME", "Only runs with this note, such as thumb=down.")
@text("--tool", "NAME", "Only runs that called this tool.")
@text("--error-code", "CODE", "Only runs that failed with this code.")
@text("--text", "TEXT", "Only runs whose request or answer contains it.", name="text")
@text("--effect", "EFFECT", "Only runs with this worst effect: none, applied or unknown.")
@text("--conversation", "ID", "Only the turns of this conversation.", name="context_id")
@text("--run", "RUN", "Only this run.", name="run_id")
@number(
    "--after", "An event: replies up to it are played, then models are asked.", least=0, default=0
)
@text("--since", "MOMENT", "Only runs that started then or later, in UTC.")
@text("--until", "MOMENT", "Only runs that started before.")
@click.option(
    "--min-cost", type=click.FloatRange(0), default=0, metavar="N", help="Only runs that cost it."
)
@click.option("--status", default="ended", metavar="STATUS", show_default=True, help="As for runs.")
@number("--sample", "Draw so many at random.", least=1, default=None)
@number("--seed", "Another one draws others.", least=0, default=0)
@_LAB_SECRETS
@number("--limit", "The newest so many, 0 for all.", least=0, default=0)
@JOURNAL
@JSON
def collect(**options: Any) -> int:
    """Write past runs into DATA.jsonl, each with its request and what its tools returned."""
    from upshot.cli import lab_runs

    return run_command(lab_runs.collect_cases, **options)


@lab.command("run", short_help="Try agents on a dataset, and compare them.")
@click.argument("path", metavar="DATA.jsonl", type=PATH)
@click.argument("target", metavar="FILE.py[:NAME]", type=PATH)
@click.option("--against", multiple=True, metavar="FILE.py[:NAME]", help="Another variant.")
@text("--scorers", "FILE.py[:NAME]", "A list of further scorers.", type=PATH)
@number("--repeat", "How often each case is run.", least=1, default=1, show_default=True)
@click.option("--budget", type=float, metavar="USD", help="The most that all runs may cost.")
@number("--concurrency", "How many runs at a time.", least=1, default=10, show_default=True)
@choice("--replies", ("live", "recorded"), "Ask the models, or replay the record.", default="live")
@choice(
    "--approvals",
    ("deny", "approve"),
    "For calls that the record has no answer for.",
    default="deny",
)
@choice(
    "--tools", ("recorded", "simulated", "live reads"), "What answers calls.", default="recorded"
)
@choice(
    "--unseen",
    ("deny", "stop", "simulated"),
    "What a call gets that was not recorded.",
    default="deny",
)
@_LAB_SECRETS
@text("--simulator", "MODEL", "Or FILE.py:NAME, a function or an agent: answers simulated calls.")
@text("--name", "NAME", "The name of the experiment; another one makes all runs again.")
@click.option(
    "--fail-if",
    metavar="CONDITION",
    help="Exit with 1 if it holds, such as 'effects.new > 0'.",
)
@text("--report", "FILE", "Write the report as JSON.", name="report_file", type=PATH)
@text("--html", "FILE", "Write the report as a page.", type=PATH)
@click.option(
    "--journal", default="lab.db", metavar="FILE", show_default=True, help="For these runs."
)
@JSON
def try_agents(**options: Any) -> int:
    """Try the agent of FILE.py on DATA.jsonl, and compare others with it.

    No tool is called: each call gets the outcome that the record has. What the record does not have
    is listed: a write is what the agent would have done.
    """
    from upshot.cli import lab_runs

    return run_command(lab_runs.run_cases, **options)


@lab.command("export", short_help="Write a report for another tool.")
@click.argument("path", metavar="REPORT.json", type=PATH)
@click.option("--inspect", metavar="FOLDER", type=PATH, required=True, help="For inspect view.")
@JSON
def export_report(**options: Any) -> int:
    """Write a log of Inspect for the record and each variant of REPORT.json."""
    from upshot.cli import lab_runs

    return run_command(lab_runs.export_report, **options)


@lab.command(short_help="Make a dataset of a log of Inspect.")
@click.argument("log", metavar="LOG.eval", type=PATH)
@click.argument("path", metavar="DATA.jsonl", type=PATH)
@JSON
def from_inspect(**options: Any) -> int:
    """Write the samples of LOG.eval into DATA.jsonl, each with its target and its tool calls."""
    from upshot.cli import lab_runs

    return run_command(lab_runs.read_inspect_log, **options)


@upshot.command(short_help="List who saw, answered and did what.")
@text("--user", "NAME", "Only acts of this user.")
@choice("--kind", KINDS, "Only acts of this kind.")
@text("--action", "ACTION", "Only this, such as approve, cancel or redact.")
@text("--run", "RUN", "Only acts on this run.", name="wanted")
@text("--tool", "NAME", "Only acts on calls of this tool.")
@text("--argument", "CONDITION", "Such as 'amount>100': of the arguments of the calls.")
@text("--since", "MOMENT", "Only acts then or later, such as 2027-01-31T08:00.")
@text("--until", "MOMENT", "Only acts before.")
@number("--limit", "The maximum number, 0 for all.", least=0, default=50, show_default=True)
@flag("--lines", "Print all as lines of JSON.")
@text("--remove-before", "MOMENT", "Remove the rows before.")
@JOURNAL
@JSON
def audit(**options: Any) -> int:
    """List who saw, answered, settled and did what, newest first.

    RUN is an id, the start of one, or last.
    """
    from upshot.cli import audit_list

    return run_command(audit_list.list_audit, **options)


_OLDER_THAN = number(
    "--older-than",
    "All runs that ended at least this many days ago.",
    name="older_than_days",
    least=0,
    metavar="DAYS",
)


@upshot.command(short_help="Remove runs from a log.")
@click.argument("wanted", metavar="[RUN]...", nargs=-1)
@JOURNAL
@_OLDER_THAN
@text("--conversation", "ID", "All runs of this conversation.")
@text("--config", "FILE", "By the rules of this file: how long to keep which runs.", type=PATH)
@flag("--effects", "Remove their effects too, which can then happen again.")
@flag("--dry-run", "Only say what would be removed.")
@JSON
def prune(**options: Any) -> int:
    """Remove runs from a log, with all that they started and their stored outputs.

    RUN is an id, the start of one, or last. What a parent run, a fork or a later turn of a
    conversation still reads stays. Without --effects, an old run with an unknown effect stays, and
    so do all effects: a call with the same key gets the outcome of the first.
    """
    return run_command(pruning.prune_runs, **options)


@upshot.command(short_help="Move ended runs into an archive.")
@click.argument("place", metavar="PLACE")
@JOURNAL
@_OLDER_THAN
@text("--config", "FILE", "By the rules of this file, as for prune.", type=PATH)
@text("--restore", "RUN", "Bring this run back into the log instead.")
@flag("--dry-run", "Only say what would be archived.")
@JSON
def archive(**options: Any) -> int:
    """Move ended runs into an archive: a file for each run, which is compared before it is removed.

    PLACE is a folder, or a URL such as s3://bucket/desk. What prune would keep stays. --journal
    archive:PLACE reads the archive in other commands.
    """
    return run_command(pruning.archive_old_runs, **options)


@upshot.command(short_help="Remove what was said in a conversation.")
@click.argument("conversation", metavar="CONVERSATION")
@JOURNAL
@text("--by", "NAME", "Who asks for it; the log keeps the name.")
@JSON
def redact(**options: Any) -> int:
    """Permanently remove from a log everything that was said in a conversation.

    What it cost and did, and who approved what and when, stays. Its runs must have ended.
    """
    return run_command(listing.redact_conversation, **options)


for _command in (salvage, journal, health, index):
    upshot.add_command(_command)


@upshot.command(short_help="List the workers of a journal, or drain one.")
@text("--drain", "ID", "Ask this worker to finish its runs and take no more.")
@text("--by", "NAME", "Who asks for it. Default: the user.")
@JOURNAL
@JSON
def workers(**options: Any) -> int:
    """List the processes that work on the runs of a journal, with the runs that each holds.

    A drained worker works on until the runs that it holds have ended, and then ends.
    """
    return run_command(app_runs.list_workers, **options)


@upshot.command(short_help="Write a small App with tests into a new folder.")
@click.argument("folder", type=PATH)
def new(**options: Any) -> int:
    """Write a small App with tests into a new folder, and print what to do next.

    FOLDER does not exist yet, or is empty. The desk answers without a key.
    """
    return run_command(documents.make_desk, **options)


@upshot.command(short_help="Report every fault in a machine.")
@click.argument("target", metavar="FILE", type=PATH)
@TOOLS
@JSON
def check(**options: Any) -> int:
    """Report every fault in a machine: what was found, and what was expected.

    FILE is a machine in YAML or JSON; an agent's file or FILE.py:AGENT is loaded. With --tools,
    missing functions and agents are reported too. The exit code is 2 if there is a fault.
    """
    return run_command(documents.check_file, **options)


@upshot.command(short_help="Draw a machine or graph as Mermaid text.")
@click.argument("target", metavar="FILE", type=PATH)
@JSON
def graph(**options: Any) -> int:
    """Draw a machine or a graph as Mermaid text, which many tools show as a picture.

    FILE is a machine or the data of a graph in YAML or JSON, or FILE.py:NAME.
    """
    return run_command(documents.draw_file, **options)


@upshot.command(short_help="Serve a model provider that plays a scenario.")
@click.option(
    "--scenario", default=None, type=PATH, metavar="FILE", help="Default: every answer is ok."
)
@number("--port", "The port; 0 for a free one.", least=0, most=65535, default=0)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@number("--requests-per-minute", "Requests beyond this get a 429.", least=1)
@number("--tokens-per-minute", "The same for their tokens.", least=1)
@JSON
def sim(**options: Any) -> int:
    """Serve a model provider that plays a scenario; its base URL is printed first.

    It serves until Ctrl-C or SIGTERM.
    """
    return run_command(_serve, **options)


async def _serve(
    terminal: Terminal,
    *,
    scenario: str | None,
    port: int,
    host: str,
    **limits: int | None,
) -> int:
    """Serve a simulator; its base URL is printed as one line once it listens."""

    def announce(simulator: Simulator) -> None:
        terminal.answer_text({"base_url": simulator.base_url}, f"{simulator.base_url}\n")

    given = {name: limit for name, limit in limits.items() if limit is not None}
    await until_signal(
        serve_forever(scenario or None, port, host=host, limits=given or None, on_start=announce)
    )
    return 0


@upshot.command(short_help="Print the contract for programs in other languages.")
@flag("--json-schema", "JSON Schema of every value.")
@flag("--typescript", "TypeScript declarations of the same.")
@flag("--execution-result", "JSON Schema of the execution result.")
@flag("--machine", "JSON Schema of a machine in YAML.")
@flag("--lab-report", "JSON Schema of a report of the lab.")
@JSON
def schema(**options: Any) -> int:
    """Print the contract for programs in other languages; one form at a time.

    With --json, TypeScript is a text in an object; a JSON Schema is JSON as it is.
    """
    forms = [name for name in documents.FORMS if options.pop(name)]
    if len(forms) != 1:
        names = "--json-schema, --typescript, --execution-result, --machine and --lab-report"
        raise click.UsageError(f"give one of {names}")
    return run_command(documents.print_schema, form=forms[0], **options)


def _asked_for(arguments: Sequence[str]) -> str:
    """Return the command that was typed, for errors without a click context."""
    named = next((one for one in arguments if one in upshot.commands), "")
    return f"upshot {named}".rstrip()


def _complain(message: str) -> int:
    Terminal().err.file.write(f"{message}\n")
    return MISUSE
