"""What is added and forgotten in one of its places makes a test here fail.

An option, an event, an error code, a denied reason, a gate, and what plays a role that has a suite.
CONTRIBUTING.md names the places of each.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

import upshot
from upshot import Agent, DeniedReason, ErrorCode, Event, Misuse, Policy, resume, run
from upshot.contract import Unknown
from upshot.entry.planning import plan_run
from upshot.entry.session_setup import run_child
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.runs.plan import OPTIONS, ResumeOptions, RunOptions
from upshot.tools.gates.pipeline import StandardGate
from upshot.tools.gates.standard_gates import Repair, StartGate, pipelines, standard_gates

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "upshot"
NAMES = sorted(RunOptions.__optional_keys__)
# Any value will do for these.
ANY = {"dependencies"}
# Said on resume too, but by a parameter, and what only a run that begins can do.
OWN = {"conversation", "if_waiting", "journal", "remember"}

# What an option may not be, where 5 is right.
WRONG = {"max_attempts": 0, "priority": "high", "write_grace_s": -1}


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


def test_every_option_has_a_row_of_what_it_may_be() -> None:
    assert sorted(OPTIONS) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ANY])
async def test_every_option_of_run_is_checked(name: str) -> None:
    wrong: dict[str, Any] = {name: WRONG.get(name, 5)}
    with pytest.raises(Misuse, match=name):
        await run(hello(), "?", **wrong)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ANY])
async def test_every_option_of_resume_is_checked(name: str) -> None:
    journal = MemoryJournal()
    result = await run(hello(), "?", journal=journal)
    wrong: dict[str, Any] = {"journal": journal, name: WRONG.get(name, 5)}
    with pytest.raises(Misuse, match=name):
        await resume(result.run_id, hello(), **wrong)


def test_what_run_takes_resume_takes() -> None:
    assert RunOptions.__optional_keys__ - ResumeOptions.__optional_keys__ == OWN


class Watched(dict[str, Any]):
    """Options that know which of them were looked at."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()


async def test_no_option_is_taken_and_then_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both run and resume plan by this function; one that it does not read does nothing.
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    options: Any = Watched(model="openai:gpt-5")
    await plan_run(Agent("a"), upshot.Request("?"), options, MemoryJournal(), child=run_child)
    assert set(NAMES) - options.read - OWN == set()


EVENTS = [event for event in get_args(Event) if event is not Unknown]


def test_every_event_is_exported() -> None:
    assert [event for event in EVENTS if getattr(upshot, event.__name__, None) is not event] == []
    assert {event.__name__ for event in EVENTS} - set(upshot.__all__) == set()


DELTAS = "Lagged PartDelta ReasoningDelta TextDelta ToolCallDelta ToolProgress"
ASIDE = "CheckpointSaved Committed Decided"
ANSWERS = "ApprovalAnswered QuestionAnswered QuestionAsked"
STEPS = "StepSettled StepStarted"
ATTEMPTS = "AttemptEnded AttemptStarted"
ENDS = "RunInterrupted Warned HandoffEvent"
CALLS = "ModelReplied ModelRetried ModelStarted ToolSettled ToolStarted"
SAVED = "ToolStateSaved"
# The modules that read all events of a run, and the events that mean nothing to each.
PASSED_OVER = {
    "state.run_state": DELTAS,
    # These are stored whole, for no earlier event says a part of them.
    "state.stored_events": f"{DELTAS} {ASIDE} {ANSWERS} {STEPS} {ENDS} "
    f"{SAVED} ArtifactStored Compacted RunReleased RunStarted Tainted UsageReported",
    "state.summary": f"{DELTAS} {ASIDE} {STEPS} {ATTEMPTS} {ENDS} {CALLS} {SAVED} QuestionAsked "
    "ApprovalRequested ArtifactStored BoardChanged Compacted Tainted UsageReported",
    # It reads usage, warnings and artifacts from the state.
    "state.activity": f"{ASIDE} {SAVED} ArtifactStored AttemptEnded BoardChanged Compacted Lagged "
    "PartDelta ReasoningDelta ToolCallDelta UsageReported Warned",
    "telemetry.spans": f"{DELTAS} {ASIDE} {SAVED} {ANSWERS} {STEPS} {ATTEMPTS} {ENDS} "
    "ApprovalRequested ArtifactStored BoardChanged Compacted Tainted UsageReported",
    "runs.replay.comparison": f"{DELTAS} {ANSWERS} {SAVED} ApprovalRequested ArtifactStored "
    "CheckpointSaved Committed Compacted ModelRetried RunInterrupted RunReleased StepSettled "
    "Tainted UsageReported",
}


@pytest.mark.parametrize("reader", PASSED_OVER)
def test_a_reader_of_events_names_each_or_is_said_to_pass_it_over(reader: str) -> None:
    known = vars(importlib.import_module(f"upshot.{reader}"))
    events = {event.__name__: event for event in get_args(Event) if event is not Unknown}
    unnamed = {name for name, event in events.items() if known.get(name) is not event}
    assert unnamed == set(PASSED_OVER[reader].split())


def test_every_event_is_emitted_somewhere() -> None:
    # A class that is read by a pattern is named after "case", and defined after "class".
    made = set(re.findall(r"(?<!case )(?<!class )(?<!\| )\b(\w+)\(", source_without("events.py")))
    assert {event.__name__ for event in EVENTS} - made == set()


@cache
def source_without(name: str) -> str:
    """The text of all modules but those of that name."""
    return "".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name != name)


@pytest.mark.parametrize("words", [DeniedReason, ErrorCode], ids=lambda words: words.__name__)
def test_every_word_for_a_refusal_or_an_error_is_given_somewhere(words: Any) -> None:
    text = source_without("enums.py")
    said = set(re.findall(rf"\b{words.__name__}\.(\w+)", text))
    said |= {word.name for word in words if f'code="{word}"' in text}
    assert {word.name for word in words} - said == set()


def test_every_standard_gate_is_asked() -> None:
    asked = standard_gates(
        hook=lambda call: None,
        approve=lambda call: None,
        policy=Policy(),
        repair=Repair(ScriptedModel([]).call, None),
        earlier=[("pay", {}, "was applied")],
    )
    # The one that is asked only when a body starts.
    found = {type(gate) for gate in asked} | {StartGate}
    modules = ("approval_gate", "pipeline", "standard_gates")
    for module in modules:
        importlib.import_module(f"upshot.tools.gates.{module}")
    ours = {kind for kind in kinds_of(StandardGate) if kind.__module__.startswith("upshot.")}
    assert ours - found == set()


@pytest.mark.parametrize("approve", [None, lambda call: True], ids=["plain", "with options"])
def test_a_gate_that_looks_again_is_asked_again(approve: Any) -> None:
    def start(call: Any) -> None:
        return None

    given: dict[str, Any] = {"hook": None, "policy": None, "repair": None, "approve": approve}
    find = pipelines(None, at_start=None if approve is None else start, **given)
    gates = vars(find(None))
    asked = {type(gate) for gate in (*gates["_at_count"], *gates["_at_start"])}
    ours = {kind for kind in kinds_of(StandardGate) if kind.__module__.startswith("upshot.")}
    later = {kind for kind in ours if {"check_count", "check_start"} & vars(kind).keys()}
    # Only who gives a function for it has this one.
    assert later - asked == (set() if approve else {StartGate})


def kinds_of(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from kinds_of(one)


# What a class has that plays the role, and the files in which the suite of the role is run.
ROLES = {
    "EngineContract": ("engines", {"execute"}),
    "JournalContract": ("journal", {"append", "claim", "durable", "events"}),
    "ModelContract": ("models", {"call", "name", "stream"}),
    "TransportContract": ("models", {"send"}),
}
# Two that ask through another library, which tests do without: tests/models/test_library_models*.
# And what is only inherited from, and an archive, which is only read: tests/journal/test_archive*.
OTHERWISE = {"AISuiteModel", "ArchiveJournal", "LibraryModel", "LiteLLMModel", "SqlJournal"}


@pytest.mark.parametrize("suite", ROLES)
def test_what_ships_for_a_role_passes_its_suite(suite: str) -> None:
    package, methods = ROLES[suite]
    root = importlib.import_module(f"upshot.{package}")
    found: set[str] = set()
    for info in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        module = importlib.import_module(info.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            is_ours = kind.__module__ == info.name and not getattr(kind, "_is_protocol", False)
            if is_ours and all(callable(vars_of(kind).get(method)) for method in methods):
                found.add(name)
    tried = {subject for path in ROOT.glob("tests/**/*.py") for subject in tried_in(path, suite)}
    assert found - OTHERWISE
    assert found - OTHERWISE - tried == set()


def vars_of(kind: type) -> dict[str, Any]:
    """The members of a class; a property is given as its function."""
    members = {name: value for one in reversed(kind.__mro__) for name, value in vars(one).items()}
    return {name: getattr(value, "fget", value) for name, value in members.items()}


def tried_in(path: Path, suite: str) -> Iterator[str]:
    """The names that the classes of a file mention that run *suite*."""
    for body in re.split(r"^(?=class |def |async def |@)", path.read_text(), flags=re.MULTILINE):
        if re.match(rf"class Test\w*\({suite}\):", body):
            yield from re.findall(r"\b[A-Z]\w+", body.partition("\n")[2])
            # What makes models of names makes these.
            if "resolve(" in body:
                yield "HttpModel"


@pytest.mark.parametrize("function", [upshot.run, upshot.run_sync, upshot.start, upshot.reopen])
def test_the_help_of_a_function_names_its_options(function: Any) -> None:
    _, _, told = str(function.__doc__).partition("options: Any of ")
    names = set(re.findall(r"[a-z_]+", told.partition(".")[0]))
    own = ResumeOptions if function is upshot.reopen else RunOptions
    # Only a command line gives it.
    assert names == own.__optional_keys__ - {"launch"}
