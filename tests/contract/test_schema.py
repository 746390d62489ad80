"""The contract in other languages: what is generated is true, and what is checked in is that."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import (
    STRUCTS,
    TAGGED,
    events,
    json_objects,
    kinds,
    structs,
    unknown_kinds,
)
from tests.searching import examples
from upshot.contract import (
    AgentError,
    AgentResult,
    Cost,
    Deny,
    EffectClaim,
    Message,
    Outdated,
    Settlement,
    Taken,
    Text,
    ToolExecutionResult,
    ToolRecord,
    Unknown,
    contract_schema,
    contract_typescript,
    encode,
    execution_result_schema,
)
from upshot.contract.schema import write_json_schema, write_typescript

FOLDER = Path(__file__).resolve().parents[2] / "schema"
SCHEMA: Any = contract_schema()
TYPESCRIPT = contract_typescript()


def by_name(kind: Any) -> str:
    return kind.__name__


@cache
def fits(name: str) -> jsonschema_rs.Validator:
    """What says whether a value is a *name*."""
    return jsonschema_rs.validator_for({**SCHEMA, "$ref": f"#/$defs/{name}"}, validate_formats=True)


def as_json(value: object) -> Any:
    return json.loads(encode(value))


def declaration(name: str) -> str:
    """The TypeScript of one declaration."""
    found = re.search(
        rf"^export (interface {name} {{\n.*?^}}|type {name} =.*?;)$", TYPESCRIPT, re.M | re.S
    )
    assert found is not None, f"nothing is declared as {name}"
    return found[0]


# -- what is checked in


@pytest.mark.parametrize(
    ("file", "made"),
    [
        ("upshot.schema.json", contract_schema),
        ("execution-result.schema.json", execution_result_schema),
    ],
)
def test_the_schema_in_the_repository_is_the_one_that_is_generated(file: str, made: Any) -> None:
    assert json.loads((FOLDER / file).read_text("utf-8")) == made(), "run: make schema"


def test_the_declarations_in_the_repository_are_those_that_are_generated() -> None:
    assert (FOLDER / "upshot.d.ts").read_text("utf-8") == TYPESCRIPT, "run: make schema"


# -- the JSON Schema


@pytest.mark.parametrize("made", [contract_schema, execution_result_schema])
def test_it_is_a_schema_itself(made: Any) -> None:
    jsonschema_rs.meta.validate(made())


@pytest.mark.parametrize("kind", STRUCTS, ids=by_name)
@examples(25)
@given(data=st.data())
def test_whatever_is_written_fits(kind: Any, data: st.DataObject) -> None:
    value = data.draw(structs(kind))
    fits(kind.__name__).validate(as_json(value))


@given(events())
def test_every_event_fits_known_or_unknown(event: Any) -> None:
    fits("Event").validate(as_json(event))


@pytest.mark.parametrize("kind", [k for k in TAGGED if k is not Unknown], ids=by_name)
@examples(3)
@given(data=st.data())
def test_what_stands_alone_is_a_whole_document(kind: Any, data: st.DataObject) -> None:
    jsonschema_rs.validate(SCHEMA, as_json(data.draw(structs(kind))))


def test_an_unknown_kind_is_no_whole_document() -> None:
    assert not jsonschema_rs.is_valid(SCHEMA, {"kind": "moon_rose"})


@given(unknown_kinds(), json_objects())
def test_a_part_of_an_unknown_kind_fits(kind: str, fields: Any) -> None:
    assert fits("Part").is_valid({**fields, "kind": kind})


def test_a_part_of_a_known_kind_has_to_fit_that_kind() -> None:
    assert fits("Part").is_valid({"kind": "text", "text": "Hi"})
    assert not fits("Part").is_valid({"kind": "text", "text": 5})


def test_fields_that_nobody_knows_yet_fit() -> None:
    assert fits("Text").is_valid({**as_json(Text("Hi")), "colour": "blue"})


@pytest.mark.parametrize("kind", [k for k in STRUCTS if k is not Unknown], ids=by_name)
def test_just_what_is_never_left_out_is_required(kind: Any) -> None:
    needed = {
        "message": Message("user"),
        "outcome": ToolExecutionResult("", ""),
        "record": ToolRecord(outcome=ToolExecutionResult("", "")),
        "answer": {"kind": "deny", "call_id": ""},
        "result": AgentResult(),
        "role": "user",
    }
    if kind in (Taken, Outdated):
        needed["answer"] = Deny("c1")
    if kind is EffectClaim:
        needed["id"] = "0" * 32
    if kind is Settlement:
        needed["effect"] = "none"
    given = [f.name for f in msgspec.structs.fields(kind) if f.required]
    least = as_json(kind(**{name: needed.get(name, "") for name in given}))
    assert set(SCHEMA["$defs"][kind.__name__].get("required", ())) == set(least)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("status", "failed", "finished"),
        ("cost", {"currency": "EUR", "estimated": True, "total": 0.25}, 0.25),
        ("started_at", "2026-03-01T12:00:00Z", "1 March"),
        ("cause", "a word of tomorrow", 5),
        ("output", [None, {"a": []}], ...),
        ("local", None, {}),
        ("finish_reason", None, "why not"),
        ("metadata", {"a": [1, None]}, []),
        ("duration_ms", 5, 5.5),
    ],
)
def test_a_field_holds_what_its_type_says(field: str, good: Any, bad: Any) -> None:
    result = as_json(AgentResult())
    assert fits("AgentResult").is_valid({**result, field: good})
    assert bad is ... or not fits("AgentResult").is_valid({**result, field: bad})


def test_money_is_a_number_and_no_text() -> None:
    cost = as_json(Cost(total=Decimal("0.000123")))
    assert cost["total"] == 0.000123
    assert not fits("Cost").is_valid({**cost, "total": "0.000123"})


def test_what_absence_means_is_said() -> None:
    fields = SCHEMA["$defs"]["Budget"]["properties"]
    assert (fields["max_turns"]["default"], fields["unpriced"]["default"]) == (50, "refuse")
    assert "default" not in fields["deadline_s"]


def test_descriptions_are_those_of_the_docstrings_in_anybodys_words() -> None:
    form = SCHEMA["$defs"]["AgentError"]
    assert form["description"] == "What went wrong in a run, a model call or a hook; never raised."
    said = form["properties"]["retry_after_s"]["description"]
    assert said == "The minimum seconds to wait before a retry; null if unknown."


def test_every_field_is_described() -> None:
    records = {name: form.get("properties", {}) for name, form in SCHEMA["$defs"].items()}
    silent = [
        f"{name}.{field}"
        for name, fields in records.items()
        for field, form in fields.items()
        if field != "kind" and "description" not in form
    ]
    assert silent == []


def test_the_known_words_of_an_open_list_are_examples() -> None:
    assert "rate_limit" in SCHEMA["$defs"]["ErrorCode"]["examples"]
    assert "enum" not in SCHEMA["$defs"]["ErrorCode"]


# -- TypeScript


def test_every_struct_has_one_declaration_with_all_its_fields() -> None:
    for kind in STRUCTS:
        name = kind.__name__
        assert TYPESCRIPT.count(f"export interface {name} {{") == 1, name
        declared = re.findall(r"^  (\w+)\??: ", declaration(name), re.M)
        if kind is not Unknown:
            assert [field for field in declared if field != "kind"] == [*kind.__struct_fields__]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("AgentResult", '  kind: "agent_result";'),
        ("AgentResult", "  schema_version: number;"),
        ("AgentResult", "  status: Status;"),
        ("AgentResult", "  output?: Json;"),
        ("AgentResult", "  messages?: Message[];"),
        ("AgentResult", "  cost?: Cost | null;"),
        ("AgentResult", "  started_at?: Moment | null;"),
        ("AgentResult", "  local?: null;"),
        ("Message", "  content: string | Part[];"),
        ("Budget", '  unpriced?: "allow" | "refuse";'),
        ("Checkpoint", "  board?: BoardSnapshot;"),
        ("BoardSnapshot", "  channels?: { [key: string]: Message[] };"),
        ("Cost", "  total?: Money | null;"),
        ("Image", "  data?: Base64 | null;"),
        ("Part", "  | Unknown;"),
        ("ErrorCode", "  | (string & {});"),
        ("Status", '  | "interrupted";'),
        ("AgentExecutionResult", "  error?: string;"),
    ],
)
def test_a_line_is_as_a_person_would_write_it(name: str, line: str) -> None:
    assert line in declaration(name).splitlines()


class Odd(msgspec.Struct, kw_only=True):
    """Ends a comment: */ and goes on.

    Attributes:
        words: A text that is so long that it has to be broken, since nobody likes to read a
            line of more than a hundred characters.
    """

    words: tuple[str | int, ...] = ("a",)


def test_comments_are_broken_and_cannot_be_ended_from_within() -> None:
    text = write_typescript(write_json_schema([Odd], {}, "Odd", "odd")["$defs"], "odd")
    assert "/** Ends a comment: *\\/ and goes on. */\n" in text
    assert '   * a hundred characters.\n   * @defaultValue `["a"]`\n' in text
    assert "  words?: (string | number)[];\n" in text
    assert max(map(len, text.splitlines())) <= 100


class Opaque:
    pass


def test_what_has_no_form_in_json_cannot_be_declared() -> None:
    class Holder(msgspec.Struct):
        held: Opaque

    with pytest.raises(TypeError, match="Opaque"):
        write_json_schema([Holder], {}, "Holder", "holder")


@given(kinds())
def test_every_kind_is_declared_in_both(kind: str) -> None:
    assert f'  kind: "{kind}";\n' in TYPESCRIPT
    assert {"const": kind} in [
        form.get("properties", {}).get("kind") for form in SCHEMA["$defs"].values()
    ]


def test_an_error_of_tomorrow_fits() -> None:
    assert fits("AgentError").is_valid(as_json(AgentError("tomorrows_code", "?")))
