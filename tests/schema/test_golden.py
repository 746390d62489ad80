"""The golden files: what was written once is read for ever, and written alike."""

from __future__ import annotations

import json
from typing import Any, get_args

import jsonschema_rs
import pytest

from tests.contract.strategies import TAGGED
from tests.schema.golden import FOLDER, GOLDEN, VIEWS, laid_out
from upshot.contract import (
    AgentResult,
    Event,
    Status,
    Unknown,
    contract_schema,
    decode,
    decode_execution_result,
    encode,
    execution_result_schema,
)

SCHEMA: Any = contract_schema()
EVENT = {**SCHEMA, "$ref": "#/$defs/Event"}


def read(name: str) -> Any:
    """The value in a golden file; events of unknown kinds are events."""
    data = (FOLDER / f"{name}.json").read_bytes()
    return decode(data, Event) if name == "unknown_event" else decode(data)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_file_is_read_as_it_was_made_and_written_again_byte_by_byte(name: str) -> None:
    assert read(name) == GOLDEN[name]
    assert laid_out(encode(read(name))) == (FOLDER / f"{name}.json").read_bytes()


def test_a_golden_file_fits_the_json_schema() -> None:
    whole = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
    event = jsonschema_rs.validator_for(EVENT, validate_formats=True)
    for name in GOLDEN:
        document = json.loads((FOLDER / f"{name}.json").read_bytes())
        (event if name == "unknown_event" else whole).validate(document)


@pytest.mark.parametrize("name", VIEWS)
def test_a_golden_view_is_read_and_fits_its_schema(name: str) -> None:
    data = (FOLDER / f"{name}.json").read_bytes()
    view = decode_execution_result(data)
    assert view == VIEWS[name]
    jsonschema_rs.validate(execution_result_schema(), view)


def test_every_file_is_of_the_set() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*GOLDEN, *VIEWS}


def test_every_kind_has_a_golden_file_and_gives_it_its_name() -> None:
    named = {name.partition(".")[0] for name in GOLDEN} - {"unknown_event"}
    assert named == {kind.__struct_config__.tag for kind in TAGGED if kind is not Unknown}
    assert all(
        value.kind == name.partition(".")[0]
        for name, value in GOLDEN.items()
        if name != "unknown_event"
    )


def test_every_status_is_among_them() -> None:
    results = [value for value in GOLDEN.values() if isinstance(value, AgentResult)]
    assert {result.status for result in results} == set(Status)


def test_every_event_is_among_them() -> None:
    assert set(get_args(Event)) <= {type(value) for value in GOLDEN.values()}
