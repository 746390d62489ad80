"""ScriptEngine: an async function drives the steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar, TypeAlias, cast

from upshot.contract.base.checks import kind_of
from upshot.contract.protocols import Host
from upshot.engines.common import check_fit
from upshot.errors import Misuse
from upshot.runs.callbacks import blame
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board

_Script: TypeAlias = Callable[[Run, RunHost, Board], object]
# Async, or plain where it has nothing to wait for. It may ask for the role too: it gets both.
Script: TypeAlias = _Script | Callable[[Run, Host, Board], object]


class ScriptEngine:
    """Runs a function of ``(run, host, board)``.

    What it returns is the output; None leaves the answer on the board. A resumed run calls
    it again from its top, on the board as the run left it. What it asks through ``run`` and
    ``host`` is then handed back from the log: replies of models in the order of the calls,
    outcomes of tools by their call id and arguments, answers of the user, children and
    ``host.once`` by their keys, children without one by what they are asked; a message that it
    appends again stands there once. All else that must not be done twice belongs in ``host.once``.
    Of ``resume_from`` it gets the board, and the checkpoint as ``run.resume_from``; where it
    does not look at that, a warning says so.

    Args:
        script: An async function.

    Raises:
        Misuse: It is no function, or takes other arguments.
    """

    # It finds its place by the log, so that it is not asked whether it can go on.
    goes_on_by_log: ClassVar[bool] = True
    # What a checkpoint means is up to the script, which finds it as run.resume_from.
    reads_checkpoints: ClassVar[bool] = True

    def __init__(self, script: Script) -> None:
        if not callable(script):
            found = kind_of(script)
            raise Misuse(f"a script is an async function of (run, host, board), not {found}")
        check_fit(cast("_Script", script), "a script", "run", "host", "board")
        self._script = cast("_Script", script)

    def __repr__(self) -> str:
        return f"ScriptEngine({getattr(self._script, '__qualname__', self._script)})"

    async def execute(self, run: Run, host: RunHost, board: Board) -> object:
        """Call the script; whatever it raises ends the run.

        Returns:
            What it returned.
        """
        if run.engine is self:
            # As a part of another engine it is called for the first time, or not again.
            run.hand_back(board)
        try:
            made = self._script(run, host, board)
            return await made if inspect.isawaitable(made) else made
        except Exception as error:
            # The run decides what it means; whose code raised it is known here.
            blame(error, "the script", run.id)
            raise
