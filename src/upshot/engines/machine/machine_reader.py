"""From a document to a machine: states, agents, lint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, cast

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.settings import ModelSettings
from upshot.engines.machine.document import (
    Listing,
    MachineFault,
    Mark,
    Piece,
    Scalar,
    Table,
    expected,
)
from upshot.engines.machine.expressions import Expression, Fields, Formula
from upshot.engines.machine.machine import Each, Machine, Retrying, State, Task, Transition
from upshot.engines.machine.machine_schema import SPEC
from upshot.engines.machine.mapping_reader import TableReader, plain, shown
from upshot.errors import Misuse

__all__ = ["Cast", "Inner", "find_initial", "read_cast", "read_machine", "review"]

# None: one that has to be given to the engine.
Cast = Mapping[str, Agent[Any] | None]


def read_cast(piece: Piece | None, reader: TableReader) -> Cast:
    """Read the agents of a machine.

    Args:
        piece: A list of names; or by name a model, the description of an agent, or null.
        reader: Keeps what is wrong with them.
    """
    if piece is None:
        return {}
    if isinstance(piece, Listing):
        names = (reader.name(item, "the name of an agent") for item in piece.items)
        return {name: None for name in names if name}
    table = reader.mapping(piece, "agents by name")
    if table is None:
        return {}
    return {name: _agent(name, inner, reader) for name, inner in table.items.items()}


def _agent(name: str, piece: Piece, reader: TableReader) -> Agent[Any] | None:
    if isinstance(piece, Scalar):
        if piece.value is None:
            return None
        model = _model(piece, "a model, such as openai:gpt-5", reader)
        return _made(name, piece, {"model": model or None}, reader)
    table = reader.table(piece, "agent", "an agent")
    return None if table is None else _made(name, table, _fields(table, reader), reader)


def _fields(table: Table, reader: TableReader) -> dict[str, Any]:
    items, given = table.items, dict[str, Any]()
    if "model" in items:
        given["model"] = _model(items["model"], "the model of an agent", reader) or None
    for key in ("name", "instructions"):
        if key in items:
            given[key] = reader.text(items[key], f"the {key} of an agent") or None
    if "tools" in items:
        tools = reader.listing(items["tools"], "names of tools")
        names = [] if tools is None else tools.items
        given["tools"] = [reader.word(tool, "the name of a tool") for tool in names]
    if "output_schema" in items:
        schema = reader.mapping(items["output_schema"], "the JSON Schema of an agent's output")
        given["output_type"] = None if schema is None else plain(schema)
    if "settings" in items:
        given["settings"] = _settings(items["settings"], reader)
    return given


def _model(piece: Piece, what: str, reader: TableReader) -> str:
    model = reader.text(piece, what)
    if model and ":" not in model:
        # No fault: a model that the call names wins over it.
        wanted = "provider:model, such as openai:gpt-5"
        reader.warn(piece.mark, f"the model {model!r}", wanted, kind="model")
    return model


def _settings(piece: Piece, reader: TableReader) -> ModelSettings | None:
    table = reader.mapping(piece, "the settings of an agent's model")
    if table is None:
        return None
    known = ModelSettings.__struct_fields__
    given = JsonObject()
    for name, item in table.items.items():
        if name not in known:
            wanted = expected(name, known, "a setting of models")
            reader.tell(table.marks[name], f"the key {name!r}", wanted, kind="unknown_key")
        elif problem := _misfit(name, plain(item)):
            reader.tell(item.mark, shown(item), f"the setting {name!r}: {problem}", kind="type")
        else:
            given[name] = plain(item)
    return msgspec.convert(given, ModelSettings)


def _misfit(name: str, value: Json) -> str:
    """Why the setting *name* cannot be *value*, "" where it can."""
    try:
        msgspec.convert({name: value}, ModelSettings)
    except (msgspec.ValidationError, Misuse) as problem:
        return " ".join(str(problem).partition(" - at ")[0].split())
    return ""


def _made(name: str, piece: Piece, given: dict[str, Any], reader: TableReader) -> Agent[Any] | None:
    try:
        return Agent[Any](name, **given)
    except Misuse as problem:
        reader.tell(piece.mark, str(problem), "an agent")
        return None


def find_initial(states: Mapping[str, State], table: Table, reader: TableReader) -> str:
    """The name of the first state, "" where it is not plain."""
    firsts: list[tuple[str, Mark]] = []
    for name, piece in table.items.items():
        kind = piece.items.get("type") if isinstance(piece, Table) else None
        if isinstance(kind, Scalar) and kind.text == "initial":
            firsts.append((name, kind.mark))
    if not firsts and states:
        wanted = "one state with type: initial"
        reader.tell(table.mark, "states without an initial one", wanted, kind="no_initial")
    for _, mark in firsts[1:]:
        wanted = f"one initial state; {firsts[0][0]!r} is one"
        reader.tell(mark, "another initial state", wanted, kind="two_initial")
    return firsts[0][0] if firsts else ""


def review(states: Mapping[str, State], table: Table, initial: str, reader: TableReader) -> None:
    """Tell of ways that lead nowhere, states that no way leads to, and ways that are never taken.

    What only a hook could mend is a warning: where a hook leads is not known here.
    """
    for name, state in states.items():
        piece = table.items[name]
        if not isinstance(piece, Table):
            continue
        _check_targets(state, piece, states, reader)
        _check_order(state, reader)
        if not state.is_final and "transitions" not in piece.items:
            reader.warn(
                table.marks[name],
                f"the state {name!r}, which is not final, without transitions",
                "transitions; or [] where a hook says what comes next",
                kind="dead_end",
            )
    if initial:
        for name in _unreachable(states, initial):
            wanted = f"a way to it from {initial!r}, or a hook that names it"
            found = f"the state {name!r}, which nothing leads to"
            reader.warn(table.marks[name], found, wanted, kind="unreachable")
    if states and not any(state.is_final for state in states.values()):
        reader.warn(
            table.mark, "states without a final one", "one with type: final", kind="no_final"
        )


def _check_targets(
    state: State, piece: Table, states: Mapping[str, State], reader: TableReader
) -> None:
    ways = [(transition.to, transition.mark) for transition in state.transitions]
    routes = piece.items.get("on_error")
    if routes is not None:
        marks = (
            {code: inner.mark for code, inner in routes.items.items()}
            if isinstance(routes, Table)
            else {}
        )
        for code, to in state.on_error.items():
            ways.append((to, marks.get(code or "default", routes.mark)))
    for to, mark in ways:
        if to and to not in states:
            wanted = expected(to, states, "the name of a state")
            reader.tell(mark, f"the state {to!r}", wanted, kind="unknown_state")


def _check_order(state: State, reader: TableReader) -> None:
    for place, transition in enumerate(state.transitions[:-1]):
        if transition.when is None and not transition.is_broken:
            after = state.transitions[place + 1]
            wanted = "the transition without a condition at the end"
            found = f"a transition to {after.to!r} that is never tried"
            reader.warn(after.mark, found, wanted, kind="never_tried")
            return


def _unreachable(states: Mapping[str, State], initial: str) -> Iterator[str]:
    seen, left = {initial}, [initial]
    while left:
        for target in states[left.pop()].targets():
            if target in states and target not in seen:
                seen.add(target)
                left.append(target)
    return (name for name in states if name not in seen)


# Reads the machine that a text names, as seen from the place where it stands.
Inner = Callable[[str, Mark], Machine | None]

_TASKS = ("agent", "function", "machine")
_WORKS = (*_TASKS, "parallel", "wait")
# What a key needs one of beside it.
_BESIDE: dict[str, tuple[str, ...]] = {
    "foreach": _TASKS,
    "as": ("foreach",),
    "key": ("foreach",),
    "at_once": ("foreach",),
    "retry": (*_TASKS, "parallel"),
    "input": _WORKS,
}
_OBJECT: type[Any] = dict
# What each work takes for its input; what an expression always gives is looked at too.
_TAKEN: dict[str, tuple[type[Any] | UnionType, str]] = {
    "agent": (object, "what the agent is asked: values by name, a list, or an expression"),
    "function": (_OBJECT, "the keywords of the function: values by name, or an expression"),
    "machine": (_OBJECT, "what the machine is given: values by name, or an expression"),
    "wait": (_OBJECT | str, "the question: an expression, or values by name: question, choices"),
}
_ITEMS = "a list or mapping of items, such as context.items"
_ROOTS = ("context", "input", "output", "result")


def read_machine(
    piece: Piece, faults: list[MachineFault], *, name: str, inner: Inner
) -> Machine | None:
    """Read a machine.

    Args:
        piece: The whole of a document.
        faults: Takes all that is wrong with it.
        name: What it is called where it does not say so.
        inner: Reads a machine that it names by its file.

    Returns:
        The machine; None where there are faults.
    """
    mine: list[MachineFault] = []
    machine = _Reader(mine, inner).machine(piece, name)
    faults += mine
    return None if any(fault.severity == "fault" for fault in mine) else machine


class _Reader(TableReader):
    def __init__(self, faults: list[MachineFault], inner: Inner) -> None:
        super().__init__(faults)
        self._inner = inner

    def machine(self, piece: Piece, name: str) -> Machine | None:
        table = self.table(piece, "machine", "a machine")
        if table is None:
            return None
        items = table.items
        self._check_spec(table)
        if "name" in items:
            name = self.text(items["name"], "the name of the machine") or name
        context, cast_ = self._context(items.get("context")), read_cast(items.get("agents"), self)
        max_steps = self._max_steps(items.get("settings"))
        states, initial = self._states(items.get("states"))
        self._check_cast(states, cast_)
        return Machine(
            name,
            states,
            initial,
            context=context,
            agents=cast_,
            max_steps=max_steps,
            file=table.mark.file,
            warnings=tuple(fault for fault in self.faults if fault.severity == "warning"),
            data=cast("JsonObject", plain(table)),
        )

    def _check_spec(self, table: Table) -> None:
        spec = table.items.get("spec")
        if spec is None:
            self.warn(table.mark, "a machine without 'spec'", f"spec: {SPEC}", kind="no_spec")
        elif not isinstance(spec, Scalar) or spec.text != SPEC:
            self.tell(spec.mark, shown(spec), f"the form {SPEC!r}", kind="spec")

    def _check_cast(self, states: Mapping[str, State], known: Cast) -> None:
        tasks = (task for state in states.values() for task in state.tasks)
        for task in tasks if known else ():
            if task.kind == "agent" and task.name and task.name not in known:
                wanted = expected(task.name, known, "an agent of the machine, or one that is given")
                found = f"the agent {task.name!r}"
                self.warn(task.mark, found, wanted, kind="unknown_agent")

    def _context(self, piece: Piece | None) -> JsonObject:
        if piece is None or (isinstance(piece, Scalar) and piece.value is None):
            return {}
        table = self.mapping(piece, "what the context begins with")
        return {} if table is None else cast("JsonObject", plain(table))

    def _max_steps(self, piece: Piece | None) -> int | None:
        table = None if piece is None else self.table(piece, "settings", "the settings")
        if table is None or "max_steps" not in table.items:
            return None
        return self.count(table.items["max_steps"], "how many states may be entered")

    def _states(self, piece: Piece | None) -> tuple[Mapping[str, State], str]:
        table = None if piece is None else self.mapping(piece, "states by name")
        if table is None:
            return {}, ""
        if not table.items:
            self.tell(table.mark, "no states", "states by name", kind="missing_key")
        states = {
            name: self._state(name, inner, table.marks[name]) for name, inner in table.items.items()
        }
        initial = find_initial(states, table, self)
        review(states, table, initial, self)
        return states, initial

    def _state(self, name: str, piece: Piece, mark: Mark) -> State:
        table = self.table(piece, "state", "a state")
        if table is None:
            return State(name, mark=mark)
        self._check_keys(table)
        items = table.items
        each = self._each(table)
        names = () if each is None else (each.name,)
        given = self._given(items["input"], _taker(table), names) if "input" in items else None
        retry = self._retry(items.get("retry"))
        wait = self._wait(items["wait"]) if "wait" in items else ""
        return State(
            name,
            mark=mark,
            is_final=self._is_final(table),
            task=self._task(table, given, retry),
            each=each,
            members=self._members(items.get("parallel"), given, retry),
            wait=wait,
            input=given,
            output=self.values(items["output"]) if "output" in items else None,
            keeps=self._keeps(items.get("output_to_context")),
            on_error=self._on_error(items.get("on_error")),
            transitions=self._transitions(items.get("transitions")),
        )

    def _check_keys(self, table: Table) -> None:
        items, marks = table.items, table.marks
        works = [key for key in items if key in _WORKS]
        for extra in works[1:]:
            wanted = f"one of {', '.join(_WORKS)}"
            self.tell(marks[extra], f"{extra!r} beside {works[0]!r}", wanted, kind="combination")
        for key, needed in _BESIDE.items():
            if key in items and not any(other in items for other in needed):
                self.tell(marks[key], f"{key!r} in a state without {' or '.join(needed)}",
                          f"{' or '.join(needed)} beside it", kind="combination")  # fmt: skip

    def _is_final(self, table: Table) -> bool:
        items = table.items
        kind = items.get("type")
        word = kind.text if isinstance(kind, Scalar) else ""
        if kind is not None and word not in ("initial", "final"):
            self.tell(kind.mark, shown(kind), "initial or final", kind="type")
        is_final = word == "final"
        transitions = items.get("transitions")
        if is_final and isinstance(transitions, Listing) and transitions.items:
            wanted = "none: the machine ends there"
            self.tell(table.marks["transitions"], "transitions of a final state", wanted,
                      kind="combination")  # fmt: skip
        if not is_final and "output" in items:
            wanted = "it in a final state; others have output_to_context"
            self.tell(table.marks["output"], "'output' in a state that is not final", wanted,
                      kind="combination")  # fmt: skip
        return is_final

    def _each(self, table: Table) -> Each | None:
        items = table.items
        if "foreach" not in items:
            return None
        name = self.word(items["as"], "a name for the item") if "as" in items else "item"
        if not name.isidentifier() or name in _ROOTS:
            if name:
                wanted = f"a name of letters, digits and _ that is none of {', '.join(_ROOTS)}"
                self.tell(items["as"].mark, f"the name {name!r}", wanted)
            name = "item"
        listed = self.expression(items["foreach"], _ITEMS)
        if listed is not None:
            self.gives(listed, list | dict, _ITEMS)
        key = self._key(items["key"], name) if "key" in items else None
        at_once = self.count(items["at_once"], "items at a time") if "at_once" in items else None
        nothing = Expression("[]", table.mark)
        return Each(listed or nothing, name, key, at_once)

    def _given(self, piece: Piece, taker: str, names: Sequence[str] = ()) -> Formula | None:
        """What is given to the work *taker*; what it could not take is told here."""
        kinds, wanted = _TAKEN[taker]
        is_constant = isinstance(piece, Scalar) and not isinstance(piece.value, str)
        if is_constant or (taker != "agent" and isinstance(piece, Listing)):
            self.tell(piece.mark, shown(piece), wanted, kind="type")
            return None
        if taker == "wait" and isinstance(piece, Table) and "choices" in piece.items:
            choices = piece.items["choices"]
            if isinstance(choices, Table) or not isinstance(plain(choices), str | list):
                self.tell(choices.mark, shown(choices), "a list of choices", kind="type")
        given = self.values(piece, names)
        if isinstance(given, Expression):
            self.gives(given, kinds, wanted)
        return given

    def _key(self, piece: Piece, name: str) -> Expression | None:
        wanted = f"a key, such as {name}.id"
        key = self.expression(piece, wanted, (name,))
        if key is not None and not key.reads:
            found = f"the expression {key.source.strip()!r}, which is the same for all items"
            self.tell(key.mark, found, wanted, kind="expression")
        return key

    def _task(self, table: Table, given: Formula | None, retry: Retrying | None) -> Task | None:
        items = table.items
        kind = next((kind for kind in _TASKS if kind in items), None)
        if kind is None:
            return None
        piece, machine = items[kind], None
        if kind == "machine":
            machine, name = self._inner_machine(piece)
        else:
            name = self.name(piece, f"the name of the {kind}")
        return Task(kind, name, machine=machine, input=given, retry=retry, mark=piece.mark)

    def _inner_machine(self, piece: Piece) -> tuple[Machine | None, str]:
        if isinstance(piece, Table):
            machine = _Reader(self.faults, self._inner).machine(piece, "machine")
            return machine, "" if machine is None else machine.name
        path = self.word(piece, "the file of a machine, or the machine itself")
        machine = self._inner(path, piece.mark) if path else None
        return machine, path

    def _members(
        self, piece: Piece | None, given: Formula | None, retry: Retrying | None
    ) -> Mapping[str, Task]:
        """The members of a parallel; what the state says of input and retry holds for all."""
        table = None if piece is None else self.mapping(piece, "what is done, by name")
        if table is None:
            return {}
        if not table.items:
            self.tell(table.mark, "nothing", "what is done, by name", kind="type")
        members: dict[str, Task] = {}
        for name, inner in table.items.items():
            member = self.table(inner, "task", "a member of parallel")
            if member is None:
                continue
            self._check_keys(member)
            items = member.items
            task = self._task(
                member,
                self._given(items["input"], _taker(member)) if "input" in items else given,
                self._retry(items["retry"]) if "retry" in items else retry,
            )
            if task is None:
                wanted = f"one of {', '.join(_TASKS)}"
                self.tell(table.marks[name], f"the member {name!r} that does nothing", wanted)
            else:
                members[name] = task
        return members

    def _retry(self, piece: Piece | None) -> Retrying | None:
        table = None if piece is None else self.table(piece, "retry", "a retry")
        if table is None:
            return None
        items, given = table.items, dict[str, Any]()
        if "max_attempts" in items:
            given["max_attempts"] = self.count(items["max_attempts"], "tries in all")
        if "backoff_s" in items:
            given["backoff_s"] = self.seconds(items["backoff_s"], "before the second try")
        return Retrying(**{name: value for name, value in given.items() if value is not None})

    def _wait(self, piece: Piece) -> str:
        what = "a name for what is waited for"
        if isinstance(piece, Scalar) and not isinstance(piece.value, str | None):
            # A number would look like a time to wait.
            self.tell(piece.mark, shown(piece), f"{what}, such as approval", kind="type")
            return ""
        return self.name(piece, what)

    def _keeps(self, piece: Piece | None) -> Fields:
        table = None if piece is None else self.mapping(piece, "values of the context, by name")
        return Fields({}) if table is None else self.fields(table)

    def _on_error(self, piece: Piece | None) -> Mapping[str, str]:
        if piece is None:
            return {}
        if not isinstance(piece, Table):
            name = self.name(piece, "the name of a state, or states by error code")
            return {"": name} if name else {}
        routes: dict[str, str] = {}
        for code, inner in piece.items.items():
            name = self.name(inner, "the name of a state")
            if name:
                routes["" if code == "default" else code] = name
        return routes

    def _transitions(self, piece: Piece | None) -> tuple[Transition, ...]:
        listing = None if piece is None else self.listing(piece, "transitions")
        if listing is None:
            return ()
        return tuple(filter(None, map(self._transition, listing.items)))

    def _transition(self, piece: Piece) -> Transition | None:
        table = self.table(piece, "transition", "a transition")
        if table is None:
            return None
        items, when = table.items, None
        if "when" in items:
            when = self.condition(items["when"])
        if "to" not in items:
            return None
        to = self.name(items["to"], "the name of a state")
        is_broken = "when" in items and when is None
        return Transition(to, when, items["to"].mark, is_broken=is_broken)


def _taker(table: Table) -> str:
    """The work that takes the input of a state or task; the strictest of several."""
    members = table.items.get("parallel")
    inner = list(members.items.values()) if isinstance(members, Table) else []
    takers = [one for one in inner if isinstance(one, Table) and "input" not in one.items]
    works = [work for one in (table, *takers) for work in _TAKEN if work in one.items]
    return next((work for work in works if work != "agent"), "agent")
