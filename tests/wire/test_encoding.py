"""What the encoders of conversations share."""

import json
import re

import pytest

from tests.wire.talk import body_of
from upshot.contract import Message, ModelSettings, ToolSpec
from upshot.errors import Misuse
from upshot.wire import make_request_encoder
from upshot.wire.encoding import encode_wire, is_strict_schema, schema_name, to_wire_id
from upshot.wire.reader import SURFACES

WRITTEN = list(SURFACES)


def test_what_no_utf8_can_hold_is_replaced():
    assert json.loads(encode_wire({"\ud800": ["\udfff", float("nan")]})) == {
        "\ufffd": ["\ufffd", None]
    }


def test_an_id_that_fits_is_kept():
    assert to_wire_id("call_1", re.compile(".*")) == "call_1"


def test_an_id_that_does_not_fit_is_always_replaced_alike():
    pattern = re.compile("[a-z0-9]{9}")
    assert to_wire_id("a:b", pattern) == to_wire_id("a:b", pattern) != to_wire_id("a:c", pattern)
    assert pattern.fullmatch(to_wire_id("a:b", pattern))


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string"}, True),
        ({"type": "object", "additionalProperties": False}, True),
        ({"type": "object"}, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, False),
        ({"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"$defs": {"A": {"type": "object"}}, "type": "string"}, False),
    ],
)
def test_a_schema_is_strict_where_all_its_objects_are_closed(schema, strict):
    assert is_strict_schema(schema) is strict


@pytest.mark.parametrize(
    ("title", "name"),
    [("An answer", "An_answer"), ("", "answer"), (7, "answer"), ("x" * 99, "x" * 64)],
)
def test_a_schema_is_named_after_its_title(title, name):
    assert schema_name({"title": title}) == name


@pytest.mark.parametrize("surface", WRITTEN)
def test_every_surface_that_is_written_has_a_transcript(surface):
    made = make_request_encoder(surface, provider="p")
    tools = (ToolSpec(name="f"),)
    asked = {"model": "m", "system": None, "output_schema": None, "stream": True}
    first = made.body(tools=tools, settings=ModelSettings(), **asked)
    assert first == made.body(tools=tools, settings=ModelSettings(), **asked)
    # The addresses of Gemini and Converse say it, not the body.
    by_address = surface in ("generate", "converse")
    assert json.loads(first).get("stream") is (None if by_address else True)


CHANGES = {
    "model": "other",
    "system": "Be brief.",
    "tools": (ToolSpec(name="f"),),
    "output_schema": {"type": "object"},
    "settings": ModelSettings(max_tokens=7),
    "stream": True,
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("surface", WRITTEN)
def test_a_body_follows_each_change_of_what_is_asked(surface, name):
    made, fresh = make_request_encoder(surface), make_request_encoder(surface)
    before = body_of(made)
    assert body_of(made, **{name: CHANGES[name]}) == body_of(fresh, **{name: CHANGES[name]})
    assert body_of(made) == before


@pytest.mark.parametrize("surface", WRITTEN)
def test_instructions_that_come_later_are_in_the_next_body(surface):
    made = make_request_encoder(surface)
    body_of(made)
    made.append(Message("system", "Be brief."))
    assert "Be brief." in json.dumps(body_of(made))


@pytest.mark.parametrize("surface", WRITTEN)
def test_free_fields_that_were_changed_in_place_are_sent(surface):
    made, settings = make_request_encoder(surface), ModelSettings(extra={"x": 1})
    body_of(made, settings=settings)
    settings.extra["x"] = 2
    assert body_of(made, settings=settings)["x"] == 2


def test_an_unknown_surface_is_misuse():
    with pytest.raises(Misuse):
        make_request_encoder("chatter")
