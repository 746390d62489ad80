"""The form of a machine: its published JSON Schema, and the faults of a document that violates it.

The schema is the only description of the form. Its titles and descriptions are what a fault says is
expected. The loader checks what a schema cannot express: whether states exist, whether expressions
can be parsed, and whether every state leads to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from upshot.contract.base.checks import expected
from upshot.contract.base.structs import Json, JsonObject
from upshot.engines.machine.document import (
    Listing,
    MachineFault,
    Mark,
    Piece,
    Table,
    describe_node,
    plain,
)

if TYPE_CHECKING:
    from jsonschema_rs import Validator


SPEC = "upshot.machine/1"
# The names that every expression can read.
ROOTS = ("context", "input", "output", "result")
# A state does one thing, and so does each member of a parallel.
TASKS = ("agent", "function", "machine")
_WORKS = (*TASKS, "parallel", "wait")
# For each key of a state, the keys of which it needs one.
_BESIDE: dict[str, tuple[str, ...]] = {
    "foreach": TASKS,
    "as": ("foreach",),
    "key": ("foreach",),
    "at_once": ("foreach",),
    "vote": TASKS,
    "retry": (*TASKS, "parallel"),
    "input": _WORKS,
}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/$defs/{name}"}


def _typed(type: str | list[str], about: str, **more: Any) -> dict[str, Any]:
    return {"description": about, "type": type, **more}


def _named(about: str) -> dict[str, Any]:
    return _typed(["string", "number", "boolean"], about, pattern=r"\S")


def _object(
    title: str, about: str, properties: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "title": title,
        "description": about,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **(more or {}),
    }


def _any_of(keys: Sequence[str]) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _one_of(works: Sequence[str]) -> dict[str, Any]:
    pairs = ([one, other] for i, one in enumerate(works) for other in works[i + 1 :])
    # For anything but a mapping, "required" is always true.
    return {"type": "object", "anyOf": [{"required": pair} for pair in pairs]}


_TASK: dict[str, Any] = {
    "agent": _named("The name of an agent that works."),
    "function": _named("The name of a function that is called; its input is its keywords."),
    "machine": _typed(
        ["string", "object"],
        "The file of a machine, found from this one, or the machine itself.",
        minLength=1,
        **{"if": {"type": "object"}, "then": _ref("machine")},
    ),
    "input": _typed(
        ["object", "array", "string"],
        "What it is given: what the agent is asked, the keywords of the function, what the machine "
        "is given, or the question and choices. Values by name, an expression that gives them, "
        "and for an agent a list too. Default: what the machine was given.",
        additionalProperties=_ref("value"),
        items=_ref("value"),
    ),
    "retry": _ref("retry"),
}

_STATE: dict[str, Any] = {
    "type": {
        "description": (
            "initial: the first state, of which there is one. final: the machine ends here."
        ),
        "enum": ["initial", "final"],
    },
    **_TASK,
    "foreach": _typed(
        "string",
        "A list or mapping of items, such as context.items: the state's work is done for each.",
    ),
    "as": _typed(
        "string",
        "A name for the item in expressions, of letters, digits and _, that is not one of "
        f"{', '.join(ROOTS)}. Default: item.",
        minLength=1,
        pattern="^[A-Za-z_][A-Za-z0-9_]*$",
        **{"not": {"enum": list(ROOTS)}},
    ),
    "key": _typed(
        "string",
        "A key for each item, such as item.id: it makes the output a mapping instead of a list.",
    ),
    "at_once": _typed(
        "integer", "How many items at most at the same time. Default: all.", minimum=1
    ),
    "vote": _ref("vote"),
    "parallel": _typed(
        "object",
        "What is done at the same time, by name; the output is a mapping.",
        minProperties=1,
        additionalProperties=_ref("task"),
    ),
    "wait": _typed(
        "string",
        "A name for what is waited for, such as approval: the run is parked until a person "
        "answers, or the signal that the input names arrives; the answer is the output.",
        pattern=r"\S",
    ),
    "output": _ref("value"),
    "output_to_context": _typed(
        "object",
        "Values that are put into the context, by name.",
        additionalProperties=_ref("value"),
    ),
    "on_error": _typed(
        ["string", "number", "boolean", "object"],
        "The name of the state that follows a failure; or states by error code, default for any "
        "other.",
        pattern=r"\S",
        additionalProperties=_named("The name of a state."),
    ),
    "transitions": _typed(
        "array",
        "Transitions: the first one whose condition is true is taken. If empty, a hook chooses.",
        items=_ref("transition"),
    ),
}

_NO_WAY_ON = {
    "title": "transitions of a final state",
    "description": "none: the machine ends there",
    "maxItems": 0,
}
_NO_OUTPUT: dict[str, Any] = {
    "title": "'output' in a state that is not final",
    "description": "it in a final state; others have output_to_context",
    "not": {},
}

_DEFINITIONS: dict[str, Any] = {
    "machine": _object(
        "a machine",
        "A machine: states and the transitions between them.",
        {
            "spec": {"description": "The form of this file.", "const": SPEC},
            "name": _typed("string", "The name of the machine. Default: the name of the file."),
            "context": _typed(["object", "null"], "The initial context, as plain data."),
            "settings": _ref("settings"),
            "agents": _typed(
                ["object", "array"],
                "Agents by name, or the names of agents that are given to the engine.",
                additionalProperties=_ref("agent"),
                items=_named("The name of an agent."),
            ),
            "states": _typed(
                "object", "States by name.", minProperties=1, additionalProperties=_ref("state")
            ),
        },
        {"required": ["states"]},
    ),
    "settings": _object(
        "the settings",
        "Limits of a machine.",
        {
            "max_steps": _typed(
                "integer",
                "How many states may be entered. Default: the run's max_turns.",
                minimum=1,
            )
        },
    ),
    "agent": _object(
        "an agent",
        "A model, such as openai:gpt-5; what describes the agent; or null for an agent that is "
        "given to the engine.",
        {
            "model": _typed("string", "A model, provider:model. Default: the run's model."),
            "name": _typed("string", "A name to show."),
            "instructions": _typed("string", "The instructions for the model."),
            "tools": _typed(
                "array",
                "Names of its tools.",
                items=_typed("string", "The name of a tool.", minLength=1),
            ),
            "output_schema": _typed("object", "JSON Schema of its output. Default: text."),
            "settings": _typed("object", "The settings of an agent's model, such as temperature."),
        },
        {"type": ["string", "object", "null"]},
    ),
    "state": _object(
        "a state",
        "A state.",
        _STATE,
        {
            "not": _one_of(_WORKS),
            "dependentSchemas": {key: _any_of(needed) for key, needed in _BESIDE.items()},
            "if": {"properties": {"type": {"const": "final"}}, "required": ["type"]},
            "then": {"properties": {"transitions": _NO_WAY_ON}},
            "else": {"properties": {"output": _NO_OUTPUT}},
        },
    ),
    "task": _object(
        "a member of parallel",
        "One of the things that are done at the same time.",
        _TASK,
        {"not": _one_of(TASKS), **_any_of(TASKS)},
    ),
    "retry": _object(
        "a retry",
        "How often a failure that may pass is tried again.",
        {
            "max_attempts": _typed("integer", "How often it is tried in all.", minimum=1),
            "backoff_s": _typed(
                "number",
                "Seconds, 0 or more, before the second try; doubled each time. Default: 0.5.",
                minimum=0,
            ),
        },
        {"required": ["max_attempts"]},
    ),
    "vote": _object(
        "a vote",
        "The work is done until one answer has enough votes more than any other.",
        {
            "lead": _typed("integer", "How many votes more. Default: 2.", minimum=1),
            "at_most": _typed(
                "integer", "How often the work is done at most. Default: 9.", minimum=1
            ),
            "by": _typed(
                "string",
                "What is compared, such as output.label. Default: the whole output.",
            ),
            "at_once": _typed(
                "integer",
                "How often at most at the same time. Default: as often as could decide it.",
                minimum=1,
            ),
        },
    ),
    "transition": _object(
        "a transition",
        "A way to another state.",
        {
            "when": _typed(
                ["string", "boolean"],
                "A condition, such as context.count < 3: an expression that gives true or false, "
                "or one of these itself. Default: always.",
            ),
            "to": _named("The name of a state."),
        },
        {"required": ["to"]},
    ),
    "value": {
        "description": (
            "An expression in the Common Expression Language over context, input, output and "
            "result; a number, true, false or null; a literal text {text: ...}; or a mapping or "
            "list of values."
        ),
        "additionalProperties": _ref("value"),
        "items": _ref("value"),
    },
}


def machine_schema() -> JsonObject:
    """Return the JSON Schema of a machine.

    What it accepts has the form of a machine. Whether states exist and expressions can be parsed
    is checked by ``load_machine``.

    Source:
        JSON Schema 2020-12.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "upshot machine",
        "$ref": "#/$defs/machine",
        "$defs": _DEFINITIONS,
    }


@cache
def _validator() -> Validator:
    # Loading it is half of the import time of the core, so do it for the first machine only.
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(machine_schema())


def check_form(document: Piece, faults: list[MachineFault]) -> None:
    """Add a fault for each place where *document* does not have the form of a machine.

    A value that cannot be read is removed from the document, and its key stays in ``marks``, so
    that the rest can be read and all faults are reported.
    """
    # Places where the text itself is wrong have a fault already.
    known = {fault.mark for fault in faults}
    refused: list[tuple[Table | Listing, Piece]] = []
    for error in list(_validator().iter_errors(_with_prefixes(plain(document)))):
        holder, piece, key = _find(document, error.instance_path)
        node = _node(error.schema_path[:-1])
        name = error.kind.name
        found = list(_FAULTS.get(name, _value_faults)(error, node, piece, key))
        faults += [fault for fault in found if fault.mark not in known]
        # A state or an agent stays, because others name it; the loader can handle it.
        if holder is not None and name in _VALUE_FAULTS and "title" not in node:
            refused.append((holder, piece))
    for holder, piece in refused:
        _remove(holder, piece)


def _find(document: Piece, path: Sequence[str | int]) -> tuple[Table | Listing | None, Piece, Mark]:
    """Return the piece at *path*, its parent, and the place of its key."""
    holder, piece, key = None, document, document.mark
    for step in path:
        holder = cast("Table | Listing", piece)
        if isinstance(holder, Table):
            name = _without_prefix(str(step))
            piece, key = holder.items[name], holder.marks[name]
        else:
            piece = holder.items[int(step)]
            key = piece.mark
    return holder, piece, key


# The library drops empty keys from a path and reads "01" as a list index. So a key that does not
# start with a letter, as all keys of the schema do, gets this prefix for the check.
_PREFIX = "\ue000"


def _with_prefixes(value: Json) -> Json:
    if isinstance(value, dict):
        return {
            name if name[:1].isalpha() else _PREFIX + name: _with_prefixes(inner)
            for name, inner in value.items()
        }
    return [_with_prefixes(inner) for inner in value] if isinstance(value, list) else value


def _without_prefix(name: str) -> str:
    return name.removeprefix(_PREFIX)


def _node(path: Sequence[str | int]) -> dict[str, Any]:
    """Return the part of the schema at *path*."""
    found: Any = machine_schema()
    for step in path:
        found = found[step]
    return found


def _remove(holder: Table | Listing, piece: Piece) -> None:
    # An alias has several parents, and may have been removed from this one.
    if isinstance(holder, Table):
        for name in [name for name, one in holder.items.items() if one is piece]:
            del holder.items[name]
    else:
        holder.items = [one for one in holder.items if one is not piece]


_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number from 1",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "a text",
}
_VALUE_FAULTS = ("type", "enum", "const", "pattern", "minLength", "minimum", "not")


def _value_faults(
    error: Any, node: Mapping[str, Any], piece: Piece, key: Mark
) -> Iterator[MachineFault]:
    """Report a value of another type, or not among the allowed ones."""
    about = _about(node)
    kind = "type"
    if "title" in node and "type" not in node:
        # Valid by itself, but not with the type of the state.
        yield MachineFault(key, node["title"], about, kind="combination")
        return
    if "const" in node:
        kind, about = "spec", f"the form {node['const']!r}"
    elif "enum" in node:
        about = " or ".join(node["enum"])
    elif types := node.get("type"):
        words = [_TYPES[one] for one in ([types] if isinstance(types, str) else types)]
        if "number" in types and len(words) > 1:
            # Numbers and truth values are valid names too, as they are written.
            words = ["a name", *(["a mapping"] if "object" in types else [])]
        about = f"{_join_words(words)}: {about}"
    yield MachineFault(piece.mark, describe_node(piece), about, kind=kind)


def _about(node: Mapping[str, Any]) -> str:
    about = str(node.get("description", node.get("title", "a value"))).removesuffix(".")
    return about[:1].lower() + about[1:] if about[1:2].islower() or about[:2] == "A " else about


def _join_words(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _unknown_keys(
    error: Any, node: Mapping[str, Any], piece: Piece, key: Mark
) -> Iterator[MachineFault]:
    for name in map(_without_prefix, error.kind.unexpected):
        wanted = expected(name, node["properties"], f"a key of {node['title']}")
        mark = cast("Table", piece).marks[name]
        yield MachineFault(mark, f"the key {name!r}", wanted, kind="unknown_key")


def _missing_key(
    error: Any, node: Mapping[str, Any], piece: Piece, key: Mark
) -> Iterator[MachineFault]:
    name = error.kind.property
    found = f"{node['title']} without {name!r}"
    yield MachineFault(piece.mark, found, f"the key {name!r}", kind="missing_key")


def _missing_any(
    error: Any, node: Mapping[str, Any], piece: Piece, key: Mark
) -> Iterator[MachineFault]:
    """Report a key without one that it needs, or a member that does nothing."""
    needed = [one["required"][0] for one in node["anyOf"]]
    if "properties" in node:
        wanted = f"one of {', '.join(needed)}"
        yield MachineFault(key, f"{node['title']} that does nothing", wanted, kind="combination")
        return
    name, words = str(error.schema_path[-2]), " or ".join(needed)
    mark = cast("Table", piece).marks[name]
    found = f"{name!r} in a state without {words}"
    yield MachineFault(mark, found, f"{words} beside it", kind="combination")


def _excluded(
    error: Any, node: Mapping[str, Any], piece: Piece, key: Mark
) -> Iterator[MachineFault]:
    """Report more than one kind of work, or a value that is not allowed here."""
    if "properties" not in node:
        yield from _value_faults(error, node, piece, key)
        return
    table = cast("Table", piece)
    works = [name for name in node["properties"] if name in _WORKS]
    first, *more = [name for name in table.items if name in works]
    for extra in more:
        found, wanted = f"{extra!r} beside {first!r}", f"one of {', '.join(works)}"
        yield MachineFault(table.marks[extra], found, wanted, kind="combination")


_FAULTS: dict[str, Callable[..., Iterator[MachineFault]]] = {
    "additionalProperties": _unknown_keys,
    "required": _missing_key,
    "anyOf": _missing_any,
    "not": _excluded,
}
