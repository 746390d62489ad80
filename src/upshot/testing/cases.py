"""Cases of the lab for tests: each runs agents on itself, with recorded tools.

``cases_marker`` gives them to the tests that ask for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from upshot.contract.agent import Agent
from upshot.entry.api import run_in_own_loop
from upshot.errors import Misuse
from upshot.lab.dataset import Case, Dataset
from upshot.lab.experiment import run
from upshot.lab.scorers import Scorer, Trial


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
            options: Options of ``lab.run``, such as *unseen*, *approvals* and *dependencies*.

        Returns:
            The trial: its ``result``, and in ``new_effects`` the writes that the record does not
            have.

        Raises:
            Misuse: An argument is wrong.
        """
        trials: list[Trial] = []
        # A scorer sees more than the rows of a report say.
        keep = Scorer("trial", lambda _, trial: trials.append(trial))
        how: dict[str, Any] = {"journal": "memory:", **options}
        how |= {"replies": "live" if self.live else "recorded", "scorers": [keep]}
        await run(Dataset(self.id, (self,)), agent, **how)
        return trials[0]

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
