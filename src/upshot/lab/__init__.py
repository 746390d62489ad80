"""The lab: try a change on what has really happened, without an effect outside.

A ``Dataset`` is past runs, each with its request and what its tools returned. ``lab.run`` tries
agents on it: models are asked, tools answer from the record, and a ``Report`` compares the results.

The life of a case: ``Dataset.from_journal`` reads the log of a run and of its child runs into a
``Case``. An experiment runs each variant on it, in a journal of its own. ``RecordedTools`` stands
in for the body of every tool, in child runs and after handoffs too. Scorers judge each result, and
the report compares them with the first variant, the baseline.

Invariants:
    - No body of a tool runs. The Toolbox asks the stand-in instead, in every run that the
      experiment starts (``stand_ins`` of ``runs.run_context``). Only reads of judges and simulators
      do, and with ``tools="live reads"`` those of trials.
    - What an experiment finds follows from its journal: a process that dies and starts again makes
      the same report.
    - A call that the record does not have is never answered by a guess, unless the caller gives a
      simulator. A write that it answers is listed as a new effect all the same.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.lab.dataset import Case as Case
    from upshot.lab.dataset import Dataset as Dataset
    from upshot.lab.dataset import RecordedCall as RecordedCall
    from upshot.lab.dataset import RecordedSignal as RecordedSignal
    from upshot.lab.experiment import Variant as Variant
    from upshot.lab.experiment import run as run
    from upshot.lab.inspect_ai import from_inspect as from_inspect
    from upshot.lab.report import Comparison as Comparison
    from upshot.lab.report import LabCall as LabCall
    from upshot.lab.report import Report as Report
    from upshot.lab.report import Row as Row
    from upshot.lab.report import report_schema as report_schema
    from upshot.lab.scorers import Score as Score
    from upshot.lab.scorers import Scorer as Scorer
    from upshot.lab.scorers import Trial as Trial
    from upshot.lab.scorers import completed as completed
    from upshot.lab.scorers import contains as contains
    from upshot.lab.scorers import cost as cost
    from upshot.lab.scorers import errors as errors
    from upshot.lab.scorers import judge as judge
    from upshot.lab.scorers import latency as latency
    from upshot.lab.scorers import new_effects as new_effects
    from upshot.lab.scorers import policy as policy
    from upshot.lab.scorers import same_effects as same_effects
    from upshot.lab.scorers import steps as steps
    from upshot.lab.scorers import tokens as tokens
    from upshot.lab.scorers import trajectory as trajectory
    from upshot.lab.scorers import unknown_effects as unknown_effects
    from upshot.lab.simulation import SimulatedCall as SimulatedCall
    from upshot.lab.statistics import Interval as Interval
