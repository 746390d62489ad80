"""Group: the commands by name."""

from __future__ import annotations

from difflib import get_close_matches

import click

__all__ = ["Group"]


class Group(click.Group):
    """The commands by name; one that is not there is told with the nearest."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that *args* begin with.

        Raises:
            click.UsageError: There is none of that name.
        """
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            names = self.list_commands(ctx)
            near = " or ".join(get_close_matches(name, names))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise click.UsageError(f"there is no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)
