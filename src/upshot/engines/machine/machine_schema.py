"""Every key of a machine, and the published JSON Schema.

The form of a machine: every key that it knows, with what stands under it.

One table serves the reader, which refuses any other key, and the published JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from upshot.contract.base.structs import JsonObject

__all__ = ["DEFINITIONS", "FORMS", "Key", "SPEC", "machine_schema"]

SPEC = "upshot.machine/1"


class Key(NamedTuple):
    """One key of a mapping.

    Attributes:
        schema: What stands under it, as JSON Schema.
        about: What it is for, in a sentence.
        required: Whether it must be there.
    """

    schema: Mapping[str, Any]
    about: str
    required: bool = False


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


_TEXT = {"type": "string"}
_WORD = {"type": "string", "minLength": 1}
_NAME = {"type": ["string", "number", "boolean"], "minLength": 1}
_COUNT = {"type": "integer", "minimum": 1}
_SECONDS = {"type": "number", "minimum": 0}
_OBJECT = {"type": "object"}
_EXPRESSION = _ref("expression")
_TASK: dict[str, Key] = {
    "agent": Key(_NAME, "The name of an agent that works."),
    "function": Key(_NAME, "The name of a function that is called; its input is its keywords."),
    "machine": Key(
        {"oneOf": [_WORD, _ref("machine")]},
        "A machine inside this one: a file, found from this one, or the machine itself.",
    ),
    "input": Key(_ref("values"), "What it is given. Default: what the machine was given."),
    "retry": Key(_ref("retry"), "How often a failure that may pass is tried again."),
}

FORMS: dict[str, dict[str, Key]] = {
    "machine": {
        "spec": Key({"const": SPEC}, "The form of this file."),
        "name": Key(_TEXT, "The name of the machine. Default: that of the file."),
        "context": Key(
            {"type": ["object", "null"]}, "What the context begins with, as plain data."
        ),
        "settings": Key(_ref("settings"), "Limits."),
        "agents": Key(_ref("agents"), "The agents, by name."),
        "states": Key(
            {"type": "object", "minProperties": 1, "additionalProperties": _ref("state")},
            "The states, by name.",
            required=True,
        ),
    },
    "settings": {
        "max_steps": Key(_COUNT, "How many states may be entered. Default: the run's max_turns."),
    },
    "agent": {
        "model": Key(_TEXT, "provider:model. Default: the model of the run."),
        "name": Key(_TEXT, "For people."),
        "instructions": Key(_TEXT, "What the model is told."),
        "tools": Key({"type": "array", "items": _WORD}, "Names of its tools."),
        "output_schema": Key(_OBJECT, "JSON Schema of its output. Default: text."),
        "settings": Key(_OBJECT, "How its model is asked, such as temperature."),
    },
    "state": {
        "type": Key(
            {"enum": ["initial", "final"]},
            "initial: the first state, of which there is one. final: the machine ends here.",
        ),
        **_TASK,
        "foreach": Key(_EXPRESSION, "A list or mapping: the state's work is done for every item."),
        "as": Key(
            {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "The name under which expressions find the item. Default: item.",
        ),
        "key": Key(_EXPRESSION, "Makes the output a mapping with these keys instead of a list."),
        "at_once": Key(_COUNT, "How many items at most at the same time. Default: all."),
        "parallel": Key(
            {"type": "object", "minProperties": 1, "additionalProperties": _ref("task")},
            "What is done at the same time, by name; the output is a mapping.",
        ),
        "wait": Key(
            _WORD,
            "The run is parked until somebody answers; the answer is the output.",
        ),
        "output": Key(_ref("value"), "Of a final state: what the machine gives."),
        "output_to_context": Key(
            {"type": "object", "additionalProperties": _ref("value")},
            "What is put into the context, by name.",
        ),
        "on_error": Key(
            {"anyOf": [_NAME, {"type": "object", "additionalProperties": _NAME}]},
            "The state that follows a failure; or states by error code, default for any other.",
        ),
        "transitions": Key(
            {"type": "array", "items": _ref("transition")},
            "The ways on; the first whose condition holds is taken. Empty: a hook says which.",
        ),
    },
    "task": _TASK,
    "retry": {
        "max_attempts": Key(_COUNT, "How often it is tried in all.", required=True),
        "backoff_s": Key(
            _SECONDS, "Seconds before the second try; doubled each time. Default: 0.5."
        ),
    },
    "transition": {
        "when": Key(_ref("condition"), "The condition. Default: always."),
        "to": Key(_NAME, "The name of the next state.", required=True),
    },
}

DEFINITIONS: dict[str, dict[str, Any]] = {
    "expression": {
        "type": "string",
        "description": (
            "An expression in the Common Expression Language, over context, input, output, result."
        ),
    },
    "condition": {
        "type": ["string", "boolean"],
        "description": "An expression that gives true or false.",
    },
    "value": {
        "description": (
            "An expression, a number, true, false, null, a literal text {text: ...}, or a mapping "
            "or list of values."
        ),
        "anyOf": [
            _EXPRESSION,
            {"type": ["number", "boolean", "null"]},
            {"type": "object", "additionalProperties": _ref("value")},
            {"type": "array", "items": _ref("value")},
        ],
    },
    "values": {
        "description": (
            "Values by name, or one expression that gives all; for an agent a list of values too."
        ),
        "anyOf": [
            {"type": "object", "additionalProperties": _ref("value")},
            {"type": "array", "items": _ref("value")},
            _EXPRESSION,
        ],
    },
    "agents": {
        "description": "Agents by name, or the names of agents that are given to the engine.",
        "anyOf": [
            {
                "type": "object",
                "additionalProperties": {"anyOf": [_TEXT, {"type": "null"}, _ref("agent")]},
            },
            {"type": "array", "items": _NAME},
        ],
    },
}

_ABOUT = {
    "machine": "A machine: states and the ways between them.",
    "settings": "Limits of a machine.",
    "agent": "An agent.",
    "state": "A state.",
    "task": "One of the things that are done at the same time.",
    "retry": "How often something is tried.",
    "transition": "A way to another state.",
}
# A state does one thing, and so does each member of a parallel.
_WORKS = ("agent", "function", "machine", "parallel", "wait")


def machine_schema() -> JsonObject:
    """The JSON Schema of a machine.

    What it accepts has the form of a machine; whether states exist and expressions can be
    parsed is for ``load_machine`` to say.

    Source:
        JSON Schema 2020-12.
    """
    definitions: dict[str, Any] = {name: _object(name, keys) for name, keys in FORMS.items()}
    for name in ("state", "task"):
        works = [work for work in _WORKS if work in FORMS[name]]
        definitions[name]["not"] = {
            "anyOf": [
                {"required": [one, other]}
                for i, one in enumerate(works)
                for other in works[i + 1 :]
            ]
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "upshot machine",
        "$ref": "#/$defs/machine",
        "$defs": {**definitions, **DEFINITIONS},
    }


def _object(name: str, keys: Mapping[str, Key]) -> JsonObject:
    required: list[Any] = [key for key, form in keys.items() if form.required]
    form: JsonObject = {
        "description": _ABOUT[name],
        "type": "object",
        "properties": {
            key: {"description": form.about, **form.schema} for key, form in keys.items()
        },
        "additionalProperties": False,
    }
    if required:
        form["required"] = required
    return form
