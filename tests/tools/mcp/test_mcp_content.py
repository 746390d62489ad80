"""What an MCP tool answered, as one value."""

import pytest
from mcp_types import CallToolResult

from upshot.contract import Audio, Data, File, Image, Text
from upshot.tools.mcp.results import read_error, read_result


def text(said):
    return {"type": "text", "text": said}


def result(*content, **fields):
    return CallToolResult.model_validate({"content": content, **fields})


def resource(**fields):
    return {"type": "resource", "resource": {"uri": "a:1", **fields}}


def link(**fields):
    return {"type": "resource_link", "uri": "a:2", "name": "two", **fields}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "image", "data": "AAA=", "mimeType": "image/png"},
            Image(data=b"\0\0", media_type="image/png"),
        ),
        (
            {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
            Audio(data=b"\0\0", media_type="audio/wav"),
        ),
        (
            {"type": "image", "data": "A", "mimeType": "image/png"},
            Image(data=b"", media_type="image/png"),
        ),
        (
            {"type": "image", "data": "\u00e9", "mimeType": "image/png"},
            Image(data=b"", media_type="image/png"),
        ),
        (resource(text="t"), Data({"uri": "a:1", "text": "t"}, media_type="text/plain")),
        (
            resource(text="t", mimeType="text/html"),
            Data({"uri": "a:1", "text": "t"}, media_type="text/html"),
        ),
        (
            resource(blob="AAA=", mimeType="image/png"),
            File(url="a:1", data=b"\0\0", media_type="image/png", size_bytes=2),
        ),
        (resource(blob="AAA="), File(url="a:1", data=b"\0\0", size_bytes=2)),
        (link(), File(name="two", url="a:2")),
        (
            link(mimeType="text/html", size=7, description="d" * 201),
            File(name="two", url="a:2", media_type="text/html", size_bytes=7, summary="d" * 200),
        ),
    ],
)
def test_every_kind_of_block_becomes_a_part(block, part):
    assert read_result(result(text("see"), block)) == [Text("see"), part]


def test_structured_content_without_anything_in_it_is_still_the_value():
    assert read_result(result(structuredContent={})) == {}


@pytest.mark.parametrize(
    ("said", "structured"),
    [
        ('{"a": 1}', {"a": 1}),
        ("words", {"result": "words"}),
        ('"words"', {"result": "words"}),
        ("x", {"result": ["w", "x"]}),
        ('["w", "x"]', {"result": ["w", "x"]}),
        ("null", {"result": None}),
    ],
)
def test_a_text_that_repeats_structured_content_is_left_out(said, structured):
    assert read_result(result(text(said), structuredContent=structured)) == structured


@pytest.mark.parametrize(
    ("said", "structured"),
    [
        ("x", {"a": "x", "b": 1}),
        ('{"a": 2}', {"a": 1}),
        ("[" * 100_000, {"a": 1}),
        ("null", {"a": 1, "b": 2}),
    ],
    ids=["one field of two", "another value", "too deep to be read", "nothing"],
)
def test_a_text_that_says_something_else_stands_beside_structured_content(said, structured):
    answer = read_result(result(text(said), structuredContent=structured))
    assert answer == {"structured": structured, "content": said}


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (result(text("it is broken"), text("for good")), "it is broken\nfor good"),
        (result(structuredContent={"why": "broken"}), '{"why":"broken"}'),
        (result(text("words"), structuredContent={"why": "broken"}), "words"),
        (result(link()), "The tool failed and gave no reason."),
    ],
    ids=["texts", "structured", "both", "neither"],
)
def test_an_error_says_what_the_tool_said(failed, told):
    assert read_error(failed) == told


def test_what_is_no_text_stands_beside_structured_content():
    block = {"type": "image", "data": "AAA=", "mimeType": "image/png"}
    answer = read_result(result(text("1"), block, structuredContent={"result": 1}))
    assert answer == {
        "structured": {"result": 1},
        "content": [Image(data=b"\0\0", media_type="image/png")],
    }
