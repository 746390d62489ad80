"""The subcommands of ``upshot effects``."""

from __future__ import annotations

from typing import Any

import click

from upshot.cli.effect_list import check_effect, export_effects, list_effects, settle_effect
from upshot.cli.options import (
    APP,
    JOURNAL,
    JOURNAL_OF_APP,
    JSON,
    PATH,
    Group,
    number_from,
    run_command,
)


@click.group(cls=Group, invoke_without_command=True, short_help="List effects, and settle them.")
@click.option("--unknown", is_flag=True, help="Only unknown effects.")
@click.option("--tool", default="", metavar="NAME", help="Only effects of this tool.")
@click.option("--key", default="", metavar="KEY", help='Such as 7, or \'{"order_id":"7"}\'.')
@click.option("--run", "wanted", default="", metavar="RUN", help="Only effects of this run.")
@click.option(
    "--limit",
    type=number_from(0),
    default=50,
    show_default=True,
    metavar="N",
    help="The maximum number, 0 for all.",
)
@JOURNAL
@JSON
@click.pass_context
def effects(context: click.Context, **options: Any) -> int:
    """List the effects that a log knows: the unknown ones first, with their age.

    RUN is an id, the start of one, or last.
    """
    if context.invoked_subcommand is None:
        return run_command(list_effects, **options)
    return 0


@effects.command(short_help="Settle an unknown effect.")
@click.argument("wanted", metavar="ID|KEY")
@click.option("--applied", is_flag=True, help="It happened.")
@click.option("--none", is_flag=True, help="It did not happen; its key is free again.")
@click.option("--by", default="", metavar="NAME", help="Who found out. Default: the user.")
@click.option("--note", default="", metavar="TEXT", help="What they saw.")
@JOURNAL
@JSON
def settle(**options: Any) -> int:
    """Say whether an unknown effect happened; the first answer counts.

    ID is an id that effects lists, or its start; KEY is enough if only one unknown effect has it.
    """
    return run_command(settle_effect, **options)


@effects.command(short_help="Call the tool's verify about an unknown effect.")
@click.argument("wanted", metavar="ID|KEY")
@APP
@JOURNAL_OF_APP
@JSON
def check(**options: Any) -> int:
    """Call the verify of the App's tool about an unknown effect, and settle it with the answer.

    The exit code is 1 if it is still unknown. Workers do this repeatedly in the background.
    """
    return run_command(check_effect, **options)


@effects.command(short_help="Print receipts of effects, or check a file of them.")
@click.option(
    "--since", default="", metavar="DAY", help="Only effects since this day or moment, in UTC."
)
@click.option(
    "--verify", default="", type=PATH, metavar="FILE", help="Check these receipts; print none."
)
@click.option(
    "--anchor",
    default="",
    type=PATH,
    metavar="FILE",
    help="Add the head to this file; with --verify, look for it there.",
)
@JOURNAL
def export(**options: Any) -> int:
    """Print a line of JSON for each effect, each with the digest of the one before it.

    With --verify it exits with 1 if a line was changed, moved, left out or put in.
    """
    return run_command(export_effects, **options)
