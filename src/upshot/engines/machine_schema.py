"""The published JSON Schema of a machine, for editors and for programs that write one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contract import JsonObject
from .machine_form import DEFINITIONS, FORMS, Key

__all__ = ["machine_schema"]

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
