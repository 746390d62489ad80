"""Cases of the lab for tests: each runs agents on itself, with recorded tools.

``cases_marker`` gives them to the tests that ask for them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from upshot.contract.agent import Agent
from upshot.entry.api import run_in_own_loop
from upshot.errors import Misuse
from upshot.lab.dataset import Case, Dataset
from upshot.lab.experiment import check_scorers, run
from upshot.lab.scorers import Scorer, Trial

_KEEP = "upshot keeps the trial"


class RunnableCase(Case, frozen=True, kw_only=True):
    """A case that a test can run agents on.

    Attributes:
        live: Whether models are asked; otherwise the recorded replies are played.
    """

    live: bool = False

    async def run(self, agent: Agent[Any], **options: object) -> Trial:
        """Run an agent on the case. Tools answer from the record, so nothing outside changes.

        Args:
            agent: The agent.
            options: Options of ``lab.run``, such as *unseen*, *approvals* and *scorers*.

        Returns:
            The trial: its ``result``, in ``new_effects`` the writes that the record does not have,
            and in ``scores`` what *scorers* say.

        Raises:
            Misuse: An argument is wrong.
        """
        trials: list[Trial] = []
        # A scorer sees more than the rows of a report say.
        keep = Scorer(_KEEP, lambda _, trial: trials.append(trial))
        replies = "live" if self.live else "recorded"
        how: dict[str, Any] = {"journal": "memory:", "replies": replies, **options}
        how["scorers"] = [*check_scorers(how.get("scorers", ())), keep]
        # One after the other, so that the first trial is that of the first row.
        how["concurrency"] = 1
        report = await run(Dataset(self.id, (self,)), agent, **how)
        (row, *_) = report.of(report.baseline)
        scores = {name: score for name, score in row.scores.items() if name != _KEEP}
        return replace(trials[0], scores=scores)

    def run_sync(self, agent: Agent[Any], **options: object) -> Trial:
        """Do the same as ``run``, in a test that is not async."""
        return run_in_own_loop(lambda: self.run(agent, **options))


def read_cases(path: Path, *, live: bool) -> list[RunnableCase]:
    """Return the cases of a file.

    Raises:
        Misuse: It is no dataset, its lines do not fit its digest, or it has no cases.
    """
    found = Dataset.read(path)
    if not len(found):
        raise Misuse(f"{path} has no cases: upshot lab collect makes a file of past runs")
    return [RunnableCase(**asdict(case), live=live) for case in found]
