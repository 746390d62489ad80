"""Printing the contract for programs in other languages."""

from __future__ import annotations

import json
from collections.abc import Callable

from ..contract import (
    JsonObject,
    contract_schema,
    contract_typescript,
    execution_result_schema,
)
from ..engines import machine_schema

__all__ = ["FORMS", "schema_text"]

FORMS: dict[str, Callable[[], JsonObject | str]] = {
    "json_schema": contract_schema,
    "typescript": contract_typescript,
    "execution_result": execution_result_schema,
    "machine": machine_schema,
}


def schema_text(form: str) -> str:
    """The contract in *form*, one of ``FORMS``, as the text of a file."""
    made = FORMS[form]()
    if isinstance(made, str):
        return made
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
