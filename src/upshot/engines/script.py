"""ScriptEngine: an async function decides the steps."""

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
# Async or sync. Its parameter may be annotated with the protocol Host; it gets a RunHost.
Script: TypeAlias = _Script | Callable[[Run, Host, Board], object]


class ScriptEngine:
    """Runs a function of ``(run, host, board)``.

    Its return value is the output; None leaves the answer on the board. A resumed run calls it
    again from the top, on the board as the last session left it. What it asks through ``run`` and
    ``host`` is then answered from the log: model calls by their order, tool calls by call id and
    arguments, questions, ``host.once`` and child runs by key, and child runs without a key by
    request. A message that is appended again appears once. Anything else that must not happen twice
    belongs in ``host.once``.

    From ``resume_from`` it gets the board, and the checkpoint as ``run.resume_from``. The run warns
    if it does not look at that.

    Args:
        script: An async function.

    Raises:
        Misuse: It is not a function, or takes other arguments.
    """

    # It resumes from the log, so it is not asked whether it can resume.
    goes_on_by_log: ClassVar[bool] = True
    # Only the script knows what a checkpoint means; it reads run.resume_from.
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
        """Call the script; any exception ends the run.

        Returns:
            The script's return value.
        """
        if run.engine is self:
            # Inside another engine, that engine decides whether calls are answered from the log.
            run.hand_back(board)
        try:
            made = self._script(run, host, board)
            return await made if inspect.isawaitable(made) else made
        except Exception as error:
            # The session handles the exception; here it is known whose code raised it.
            blame(error, "the script", run.id)
            raise
