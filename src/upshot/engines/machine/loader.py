"""Loads a machine: from its file, its text or plain data to states, agents and expressions.

The schema checks the form. What it cannot express is checked here: expressions, names of states,
and transitions that lead nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, cast

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.base.checks import expected, kind_of
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.settings import ModelSettings
from upshot.engines.machine.document import (
    MAX_BYTES,
    BrokenMachine,
    Listing,
    MachineFault,
    Mark,
    Piece,
    Scalar,
    Table,
    describe_node,
    plain,
    read_data,
    read_yaml,
)
from upshot.engines.machine.expressions import (
    Constant,
    Expression,
    Fields,
    Formula,
    Items,
)
from upshot.engines.machine.machine import (
    Each,
    Machine,
    Retrying,
    State,
    Task,
    Transition,
    Vote,
)
from upshot.engines.machine.machine_schema import SPEC, TASKS, check_form
from upshot.errors import Misuse
from upshot.tools.definition.cel import BadExpression

# Reads the machine in the file that a text names, relative to the place of that text.
_Inner = Callable[[str, Mark], Machine | None]

_MAX_SHOWN = 60
_QUOTES = ("'", '"')
_OBJECT: type[Any] = dict
# What each kind of work accepts as input; the value of a constant expression is checked too.
_ACCEPTED_INPUTS: dict[str, tuple[type[Any] | UnionType, str]] = {
    "agent": (object, "what the agent is asked: values by name, a list, or an expression"),
    "function": (_OBJECT, "the keywords of the function: values by name, or an expression"),
    "machine": (_OBJECT, "what the machine is given: values by name, or an expression"),
    "wait": (
        _OBJECT | str,
        "the question: an expression, or values by name: question, choices, signal",
    ),
}
_ITEMS = "a list or mapping of items, such as context.items"
_MAX_FILES = 100


def load_machine(source: str | os.PathLike[str] | Mapping[str, Any]) -> Machine:
    """Read a machine.

    Args:
        source: The path of a file in YAML or JSON; the text of one, which has more than one line;
            or the same as plain data. Files of sub-machines are relative to the file that names
            them, and to the current folder if there is none.

    Returns:
        The machine, its expressions parsed. Its ``warnings`` have what may be a mistake.

    Raises:
        BrokenMachine: It has faults. All are reported at once, each with file, line and column,
            what was found and what was expected. It is a Misuse.
        Misuse: The file is missing or a folder, or the extra ``machine`` is not installed.
    """
    machine, faults = _load(source)
    if machine is None:
        raise BrokenMachine(faults)
    return machine


def check_machine(
    source: str | os.PathLike[str] | Mapping[str, Any],
) -> tuple[MachineFault, ...]:
    """Return all faults and warnings of a machine, in the order of the text.

    Raises:
        Misuse: The file is missing, or the extra ``machine`` is not installed.
    """
    return tuple(_load(source)[1])


def _load(source: object) -> tuple[Machine | None, list[MachineFault]]:
    faults: list[MachineFault] = []
    loader = _Loader(faults)
    if isinstance(source, Mapping):
        machine = loader.read(read_data(cast("object", source), faults), "machine")
    elif isinstance(source, str) and not source.strip() and "\n" not in source:
        raise Misuse("a machine is a path, the text of a file or a mapping, not an empty text")
    elif isinstance(source, str) and "\n" in source:
        machine = loader.read(read_yaml(source, faults), "machine")
    elif isinstance(source, str | os.PathLike):
        machine = loader.open(Path(cast("str", source)))
    else:
        raise Misuse(f"a machine is a path or a mapping, not {kind_of(source)}")
    # The target of an alias is read once for each use.
    faults[:] = dict.fromkeys(faults)
    # Faults of one file in the order of the text; files in the order in which they were read.
    files = {file: place for place, file in enumerate(dict.fromkeys(f.mark.file for f in faults))}
    faults.sort(key=lambda fault: (files[fault.mark.file], fault.mark.line, fault.mark.column))
    broken = machine is None or any(fault.severity == "fault" for fault in faults)
    return None if broken else machine, faults


class _Loader:
    """Reads each file once, however often it is named."""

    def __init__(self, faults: list[MachineFault]) -> None:
        self._faults = faults
        self._known: dict[Path, Machine | None] = {}
        self._open: list[Path] = []

    def open(self, path: Path) -> Machine | None:
        """Read the file at *path*.

        Raises:
            Misuse: It cannot be read.
        """
        try:
            text = _text_of(path)
        except OSError as error:
            raise Misuse(f"the machine {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise Misuse(f"the machine {path} is not UTF-8 text: {error.reason}") from error
        found = path.resolve()
        self._open.append(found)
        piece = read_yaml(text, self._faults, file=str(path))
        machine = self._known[found] = self.read(piece, path.stem, file=str(path))
        self._open.pop()
        return machine

    def read(self, piece: Piece | None, name: str, *, file: str = "") -> Machine | None:
        """Read *piece* as a machine."""
        if piece is None:
            if not self._faults:
                found = "nothing"
                self._faults.append(MachineFault(Mark(file, 1, 1), found, "a machine", kind="type"))
            return None
        before = len(self._faults)
        check_form(piece, self._faults)
        if not isinstance(piece, Table):
            return None
        machine = _Reader(self._faults, self._inner).machine(piece, name)
        found = self._faults[before:]
        return None if any(fault.severity == "fault" for fault in found) else machine

    def _inner(self, name: str, mark: Mark) -> Machine | None:
        path = Path(mark.file).parent / name if mark.file else Path(name)
        found = path.resolve()
        if found in self._known:
            return self._known[found]
        problem = ""
        # A machine that contains itself would be read forever.
        if found in self._open:
            problem = f"the machine {name!r}, which this one is a part of"
        elif len(self._known) >= _MAX_FILES:
            problem = f"more than {_MAX_FILES} files"
        if not problem:
            try:
                return self.open(path)
            except Misuse as error:
                problem = str(error)
        wanted = "the file of another machine"
        self._faults.append(MachineFault(mark, problem, wanted, kind="machine"))
        return None


def _text_of(path: Path) -> str:
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    if not path.is_file():
        # A device or a pipe might never end.
        raise FileNotFoundError(2, "there is no such file")
    with path.open("rb") as file:
        # One more byte shows that the file is too long.
        data = file.read(MAX_BYTES + 1)
    return data.decode("utf-8-sig", "strict" if len(data) <= MAX_BYTES else "ignore")


class _Reader:
    """Reads the pieces of a document, from which values of the wrong form have been removed."""

    def __init__(self, faults: list[MachineFault], inner: _Inner) -> None:
        self._faults = faults
        self._inner = inner

    def _add_fault(self, mark: Mark, found: str, expected: str, kind: str) -> None:
        self._faults.append(MachineFault(mark, found, expected, kind=kind))

    def _add_warning(self, mark: Mark, found: str, expected: str, kind: str) -> None:
        self._faults.append(MachineFault(mark, found, expected, "warning", kind))

    def machine(self, table: Table, name: str) -> Machine:
        """Read a machine, also one inside another."""
        items, before = table.items, len(self._faults)
        if "spec" not in table.marks:
            self._add_warning(table.mark, "a machine without 'spec'", f"spec: {SPEC}", "no_spec")
        agents = self._agents(items.get("agents"))
        listed = items.get("states")
        states: Mapping[str, State] = {}
        initial = ""
        if isinstance(listed, Table) and listed.items:
            states = {
                name: self._state(name, _table(inner), listed.marks[name])
                for name, inner in listed.items.items()
            }
            initial = self._initial(listed)
            self._review(states, listed, initial)
        for task in (task for state in states.values() for task in state.tasks if agents):
            if task.kind == "agent" and task.name and task.name not in agents:
                wanted = expected(
                    task.name, agents, "an agent of the machine, or one that is given"
                )
                self._add_warning(task.mark, f"the agent {task.name!r}", wanted, "unknown_agent")
        file = table.mark.file
        new = [fault for fault in self._faults[before:] if fault.mark.file == file]
        return Machine(
            _text(items.get("name")) or name,
            states,
            initial,
            context=cast("JsonObject", plain(_table(items.get("context")))),
            agents=agents,
            max_steps=_count(_table(items.get("settings")).items.get("max_steps")),
            file=file,
            warnings=tuple(fault for fault in new if fault.severity == "warning"),
            data=cast("JsonObject", plain(table)),
        )

    # -- agents

    def _agents(self, piece: Piece | None) -> Mapping[str, Agent[Any] | None]:
        """Return agents by name; None for one that must be given to the engine."""
        if isinstance(piece, Listing):
            return dict.fromkeys(map(_text, piece.items))
        return {name: self._agent(name, inner) for name, inner in _table(piece).items.items()}

    def _agent(self, name: str, piece: Piece) -> Agent[Any] | None:
        if isinstance(piece, Scalar) and not isinstance(piece.value, str):
            # Null means that the agent is given to the engine; anything else is a fault already.
            return None
        items = _table(piece).items or {"model": piece}
        given: dict[str, Any] = {
            key: _text(items[key]) or None
            for key in ("model", "name", "instructions")
            if key in items and isinstance(items[key], Scalar)
        }
        model = given.get("model")
        if model and ":" not in model:
            # Only a warning, because a model that the call names overrides it.
            wanted = "provider:model, such as openai:gpt-5"
            self._add_warning(items["model"].mark, f"the model {model!r}", wanted, "model")
        if "tools" in items:
            given["tools"] = plain(items["tools"])
        if "output_schema" in items:
            given["output_type"] = plain(items["output_schema"])
        if "settings" in items:
            given["settings"] = self._model_settings(_table(items["settings"]))
        try:
            return Agent[Any](name, **given)
        except Misuse as problem:
            self._add_fault(piece.mark, str(problem), "an agent", "wrong")
            return None

    def _model_settings(self, table: Table) -> ModelSettings:
        known = ModelSettings.__struct_fields__
        given = JsonObject()
        for name, item in table.items.items():
            if name not in known:
                wanted = expected(name, known, "a setting of models")
                self._add_fault(table.marks[name], f"the key {name!r}", wanted, "unknown_key")
            elif problem := _setting_problem(name, plain(item)):
                self._add_fault(
                    item.mark, describe_node(item), f"the setting {name!r}: {problem}", "type"
                )
            else:
                given[name] = plain(item)
        return msgspec.convert(given, ModelSettings)

    # -- states

    def _state(self, name: str, table: Table, mark: Mark) -> State:
        items = table.items
        each = self._each(items) if "foreach" in items else None
        names = () if each is None else (each.name,)
        given = self._input(items["input"], _input_kind(table), names) if "input" in items else None
        if each is not None and "vote" in items:
            wanted = "one of the two: a machine inside the foreach may vote"
            self._add_fault(table.marks["vote"], "'vote' beside 'foreach'", wanted, "type")
        retry = _retry(items.get("retry"))
        members = _table(items.get("parallel")).items
        return State(
            name,
            mark=mark,
            is_final=_text(items.get("type")) == "final",
            task=self._task(table, given, retry),
            each=each,
            vote=self._vote(_table(items["vote"])) if "vote" in items else None,
            members={
                member: task
                for member, inner in members.items()
                if (task := self._member(_table(inner), given, retry)) is not None
            },
            wait=_text(items.get("wait")),
            input=given,
            output=self._values(items["output"]) if "output" in items else None,
            keeps=self._fields(_table(items.get("output_to_context"))),
            on_error=_routes(items.get("on_error")),
            transitions=self._transitions(items.get("transitions")),
        )

    def _each(self, items: Mapping[str, Piece]) -> Each:
        name = _text(items.get("as")) or "item"
        listed = self._expression(items["foreach"])
        if listed is not None:
            self._may_return(listed, list | dict, _ITEMS)
        key = self._expression(items["key"], (name,)) if "key" in items else None
        if key is not None and not key.reads:
            found = f"the expression {key.source.strip()!r}, which is the same for all items"
            self._add_fault(key.mark, found, f"a key, such as {name}.id", "expression")
        nothing = Expression("[]", items["foreach"].mark)
        return Each(listed or nothing, name, key, _count(items.get("at_once")))

    def _vote(self, table: Table) -> Vote:
        items = table.items
        by = self._expression(items["by"]) if "by" in items else None
        if by is not None and "output" not in by.reads:
            found = f"the expression {by.source.strip()!r}, which does not read the output"
            self._add_fault(by.mark, found, "what is compared, such as output.label", "expression")
        lead, at_most = _count(items.get("lead")) or 2, _count(items.get("at_most")) or 9
        if at_most < lead:
            mark = items["at_most"].mark if "at_most" in items else items["lead"].mark
            self._add_fault(mark, f"at_most {at_most}", f"{lead} or more, as lead says", "type")
        return Vote(lead, at_most, by, _count(items.get("at_once")))

    def _input(self, piece: Piece, taker: str, names: Sequence[str] = ()) -> Formula | None:
        """Read the input of the work *taker*; reports what it cannot accept."""
        kinds, wanted = _ACCEPTED_INPUTS[taker]
        if taker != "agent" and isinstance(piece, Listing):
            self._add_fault(piece.mark, describe_node(piece), wanted, "type")
            return None
        choices = _table(piece).items.get("choices") if taker == "wait" else None
        if choices is not None and not isinstance(plain(choices), str | list):
            self._add_fault(choices.mark, describe_node(choices), "a list of choices", "type")
        given = self._values(piece, names)
        if isinstance(given, Expression):
            self._may_return(given, kinds, wanted)
        return given

    def _task(self, table: Table, given: Formula | None, retry: Retrying | None) -> Task | None:
        kind = next((kind for kind in TASKS if kind in table.items), None)
        if kind is None:
            return None
        piece, machine, name = table.items[kind], None, ""
        if isinstance(piece, Table):
            machine = self.machine(piece, "machine")
            name = machine.name
        else:
            name = _text(piece)
            machine = self._inner(name, piece.mark) if kind == "machine" else None
        return Task(kind, name, machine=machine, input=given, retry=retry, mark=piece.mark)

    def _member(self, table: Table, given: Formula | None, retry: Retrying | None) -> Task | None:
        """Read a member of a parallel; input and retry of the state hold for all members."""
        items = table.items
        if "input" in items:
            given = self._input(items["input"], _input_kind(table))
        return self._task(table, given, _retry(items.get("retry")) or retry)

    def _transitions(self, piece: Piece | None) -> tuple[Transition, ...]:
        found: list[Transition] = []
        for inner in piece.items if isinstance(piece, Listing) else ():
            table = _table(inner)
            when = self._condition(table.items["when"]) if "when" in table.items else None
            if "to" in table.items:
                is_broken = "when" in table.marks and when is None
                to = table.items["to"]
                found.append(Transition(_text(to), when, to.mark, is_broken=is_broken))
        return tuple(found)

    # -- checks across states

    def _initial(self, table: Table) -> str:
        """Return the name of the first state, "" if there is none."""
        kinds = {name: _table(piece).items.get("type") for name, piece in table.items.items()}
        firsts = {
            name: kind.mark for name, kind in kinds.items() if kind and _text(kind) == "initial"
        }
        if not firsts:
            wanted = "one state with type: initial"
            self._add_fault(table.mark, "states without an initial one", wanted, "no_initial")
        for mark in [*firsts.values()][1:]:
            wanted = f"one initial state; {next(iter(firsts))!r} is one"
            self._add_fault(mark, "another initial state", wanted, "two_initial")
        return next(iter(firsts), "")

    def _review(self, states: Mapping[str, State], table: Table, initial: str) -> None:
        """Check for transitions that lead nowhere, and for states and transitions never reached.

        Only a warning if a hook could fix it, because where hooks lead is unknown here.
        """
        for name, state in states.items():
            piece = _table(table.items[name])
            self._check_targets(state, piece, states)
            self._check_order(state)
            is_told = "transitions" in piece.marks or not isinstance(table.items[name], Table)
            if not state.is_final and not is_told:
                found = f"the state {name!r}, which is not final, without transitions"
                wanted = "transitions; or [] where a hook says what comes next"
                self._add_warning(table.marks[name], found, wanted, "dead_end")
        for name in _unreachable(states, initial) if initial else ():
            wanted = f"a way to it from {initial!r}, or a hook that names it"
            found = f"the state {name!r}, which cannot be reached"
            self._add_warning(table.marks[name], found, wanted, "unreachable")
        if not any(state.is_final for state in states.values()):
            self._add_warning(
                table.mark, "states without a final one", "one with type: final", "no_final"
            )

    def _check_targets(self, state: State, piece: Table, states: Mapping[str, State]) -> None:
        ways = [(transition.to, transition.mark) for transition in state.transitions]
        routes = piece.items.get("on_error")
        if routes is not None:
            marks = {code: inner.mark for code, inner in _table(routes).items.items()}
            for code, to in state.on_error.items():
                ways.append((to, marks.get(code or "default", routes.mark)))
        for to, mark in ways:
            if to not in states:
                wanted = expected(to, states, "the name of a state")
                self._add_fault(mark, f"the state {to!r}", wanted, "unknown_state")

    def _check_order(self, state: State) -> None:
        for place, transition in enumerate(state.transitions[:-1]):
            if transition.when is None and not transition.is_broken:
                after = state.transitions[place + 1]
                wanted = "the transition without a condition at the end"
                found = f"a transition to {after.to!r} that is never tried"
                self._add_warning(after.mark, found, wanted, "never_tried")
                return

    # -- expressions

    def _expression(
        self, piece: Piece, items: Collection[str] = (), *, hint: str = ""
    ) -> Expression | None:
        scalar = cast("Scalar", piece)
        try:
            return Expression(scalar.text, scalar.mark, items)
        except BadExpression as problem:
            mark = _mark_inside(scalar, problem)
            self._add_fault(mark, problem.found, problem.expected + hint, "expression")
            return None

    def _condition(self, piece: Piece) -> Expression | None:
        """Read an expression that returns true or false, or one of these values."""
        if isinstance(piece, Scalar) and isinstance(piece.value, bool):
            return Expression("true" if piece.value else "false", piece.mark)
        made = self._expression(piece)
        wanted = "a condition: true or false"
        return made if made is not None and self._may_return(made, bool, wanted) else None

    def _may_return(self, made: Expression, kinds: type | UnionType, what: str) -> bool:
        """Whether *made* may return one of *kinds*; reports a constant expression that does not."""
        misfit = made.misfit(kinds)
        if misfit:
            found = f"the expression {made.source.strip()[:_MAX_SHOWN]!r}, which {misfit}"
            self._add_fault(made.mark, found, what, "expression")
        return not misfit

    def _formula(self, piece: Piece, items: Collection[str] = ()) -> Formula:
        """Read a value: an expression, a literal text, or a mapping or list of values."""
        match piece:
            case Table(items={"text": Scalar(value=str(text)), **more}) if not more:
                return Constant(text)
            case Table():
                return self._fields(piece, items)
            case Listing():
                return Items([self._formula(item, items) for item in piece.items])
            case Scalar(value=value) if not isinstance(value, str):
                return Constant(value)
            case Scalar():
                made = self._expression(piece, items, hint="; a literal text is {text: ...}")
                if made is None or not self._may_return(made, object, "a value"):
                    return Constant(None)
                return made

    def _fields(self, table: Table, items: Collection[str] = ()) -> Fields:
        """Read values by name."""
        return Fields({name: self._formula(piece, items) for name, piece in table.items.items()})

    def _values(self, piece: Piece, items: Collection[str] = ()) -> Formula:
        """Read values by name, where ``text`` is an ordinary name; or one formula for all."""
        return (
            self._fields(piece, items) if isinstance(piece, Table) else self._formula(piece, items)
        )


def _table(piece: Piece | None) -> Table:
    """Return *piece* if it is a mapping, otherwise an empty one."""
    return piece if isinstance(piece, Table) else Table(Mark() if piece is None else piece.mark)


def _text(piece: Piece | None) -> str:
    """Return a text or name as it is written, "" if there is none."""
    return piece.text if isinstance(piece, Scalar) and piece.value is not None else ""


def _count(piece: Piece | None) -> int | None:
    return int(cast("float", piece.value)) if isinstance(piece, Scalar) else None


def _retry(piece: Piece | None) -> Retrying | None:
    items = _table(piece).items
    given = {name: plain(items[name]) for name in ("max_attempts", "backoff_s") if name in items}
    return None if piece is None else Retrying(**cast("dict[str, Any]", given))


def _routes(piece: Piece | None) -> Mapping[str, str]:
    """Return target states by error code; "" means any other code."""
    if isinstance(piece, Scalar):
        return {"": _text(piece)}
    routes = _table(piece).items.items()
    return {"" if code == "default" else code: _text(inner) for code, inner in routes}


def _setting_problem(name: str, value: Json) -> str:
    """Return why the setting *name* cannot be *value*, "" if it can."""
    try:
        msgspec.convert({name: value}, ModelSettings)
    except (msgspec.ValidationError, Misuse) as problem:
        return " ".join(str(problem).partition(" - at ")[0].split())
    return ""


def _unreachable(states: Mapping[str, State], initial: str) -> Iterator[str]:
    seen, left = {initial}, [initial]
    while left:
        for target in states[left.pop()].targets():
            if target in states and target not in seen:
                seen.add(target)
                left.append(target)
    return (name for name in states if name not in seen)


def _input_kind(table: Table) -> str:
    """Return the kind of work that takes the input of a state or task; the strictest of several."""
    members = table.items.get("parallel")
    inner = list(members.items.values()) if isinstance(members, Table) else []
    takers = [one for one in inner if isinstance(one, Table) and "input" not in one.items]
    works = [work for one in (table, *takers) for work in _ACCEPTED_INPUTS if work in one.items]
    return next((work for work in works if work != "agent"), "agent")


def _mark_inside(piece: Scalar, problem: BadExpression) -> Mark:
    """Convert a place in an expression to a place in the file.

    It is exact if the expression is written on one line without escapes; otherwise it is the start
    of the text.
    """
    mark = piece.mark
    if not mark.line:
        return mark
    lines = piece.text.count("\n")
    if piece.style == "|" and problem.line <= lines + 1:
        # The block starts in the next line; its indentation is unknown here.
        return mark._replace(line=mark.line + problem.line)
    if (
        lines
        or piece.style == ">"
        or "\\" in piece.text
        or "'" in piece.text * (piece.style == "'")
    ):
        return mark
    return mark._replace(column=mark.column + (piece.style in _QUOTES) + problem.column - 1)
