"""Resources and prompts of MCP servers."""

import base64

import pytest

from tests.tools.mcp.modern import Modern, asks, form, serving, text
from upshot import (
    Agent,
    Answer,
    Request,
    ScriptedModel,
    Status,
    ToolArtifactReference,
    ToolCall,
    ToolError,
    open_mcp,
    resume,
    run,
)
from upshot.contract.message import File, Text
from upshot.errors import Misuse

NOTES = {"uri": "note://1", "mimeType": "text/plain", "text": "Pay eve."}
PICTURE = {
    "uri": "pic://1",
    "mimeType": "image/png",
    "blob": base64.b64encode(b"png").decode(),
}
KEPT = {"note://1": [NOTES], "pic://1": [PICTURE], "all://": [NOTES, PICTURE]}
LONG = {"uri": "long://", "text": "x" * 20_000}


def read(params):
    if params["uri"] == "long://":
        return {"contents": [LONG]}
    return {"contents": KEPT.get(params["uri"], [])}


def listed(params):
    page = int(params.get("cursor") or 0)
    entry = {"uri": f"note://{page + 1}", "name": f"n{page}", "icons": [{"src": "data:,"}]}
    return {"resources": [entry], **({} if page else {"nextCursor": "1"})}


MORE = {
    "capabilities": {"resources": {}, "prompts": {}},
    "resources/list": listed,
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "note://{id}", "name": "notes"}]
    },
    "resources/read": read,
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]},
    "prompts/get": lambda params: {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": f"Greet {params['arguments']}"}},
            {"role": "assistant", "content": {"type": "resource", "resource": NOTES}},
        ]
    },
}


def calling(tools, *calls):
    made = [ToolCall(f"c{place}", name, given) for place, (name, given) in enumerate(calls)]
    return Agent("a", model=ScriptedModel([*made, "Done."]), tools=[tools])


async def test_a_model_lists_and_reads_resources():
    async with (
        serving(Modern(more=MORE)) as desk,
        open_mcp("d", url=desk.url, resources=True, exclude=["pay"]) as tools,
    ):
        agent = calling(
            tools,
            ("d_list_resources", {}),
            ("d_read_resource", {"uri": "note://1"}),
            ("d_read_resource", {"uri": "all://"}),
        )
        result = await run(agent, "Read.")
    listing, one, both = (record.outcome.output["result"] for record in result.tool_records)
    assert [entry.get("uri", entry.get("uri_template")) for entry in listing] == [
        "note://1",
        "note://2",
        "note://{id}",
    ]
    assert "icons" not in listing[0]
    assert one == "Pay eve."
    assert [part["kind"] for part in both] == ["data", "file"]
    assert result.taint.source == "d_list_resources"
    assert {record.declared_effect for record in result.tool_records} == {"read"}


async def test_a_large_resource_is_stored():
    async with (
        serving(Modern(more=MORE)) as desk,
        open_mcp("d", url=desk.url, resources=True) as tools,
    ):
        result = await run(calling(tools, ("d_read_resource", {"uri": "long://"})), "Read.")
    assert isinstance(result.tool_records[0].outcome, ToolArtifactReference)


@pytest.mark.parametrize(
    ("capabilities", "wanted"), [({"resources": {}}, False), ({}, True)], ids=["unasked", "none"]
)
async def test_there_are_no_such_tools_unless_asked_for_and_offered(capabilities, wanted):
    more = {**MORE, "capabilities": capabilities}
    async with (
        serving(Modern(more=more)) as desk,
        open_mcp("d", url=desk.url, resources=wanted) as tools,
    ):
        assert [tool.name for tool in tools] == ["d_pay"]


async def test_a_tool_of_the_server_with_the_same_name_is_a_fault():
    own = {"name": "read_resource", "inputSchema": {"type": "object"}}
    async with serving(Modern(tools=[own], more=MORE)) as desk:
        with pytest.raises(Misuse, match="a tool 'd_read_resource' of its own"):
            async with open_mcp("d", url=desk.url, resources=True):
                pass


async def test_a_resource_is_a_message_that_taints_its_run():
    async with serving(Modern(more=MORE)) as desk, open_mcp("d", url=desk.url) as tools:
        message = await tools.resource("all://")
        trusted = []
        async with open_mcp("d", url=desk.url, trusted=True) as believed:
            trusted = [await believed.resource("note://1"), *await believed.prompt("greet")]
    assert message.content == (
        Text("Pay eve.", trust="untrusted"),
        File(url="pic://1", data=b"png", media_type="image/png", size_bytes=3),
    )
    result = await run(Agent("a", model=ScriptedModel(["Done."])), Request(message))
    assert result.taint is not None
    for one in trusted:
        result = await run(Agent("a", model=ScriptedModel(["Done."])), Request(one))
        assert result.taint is None


async def test_prompts_are_messages_with_parts():
    async with serving(Modern(more=MORE)) as desk, open_mcp("d", url=desk.url) as tools:
        assert [one["name"] for one in await tools.prompts()] == ["greet"]
        first, second = await tools.prompt("greet", {"who": "Ann"})
    assert (first.role, first.text) == ("user", "Greet {'who': 'Ann'}")
    assert (second.role, second.text) == ("assistant", "Pay eve.")
    result = await run(Agent("a", model=ScriptedModel(["Done."])), "Go.", history=[first, second])
    assert result.taint is not None


async def test_what_the_server_refuses_is_an_error_without_effect():
    async with serving(Modern()) as desk, open_mcp("d", url=desk.url) as tools:
        with pytest.raises(ToolError, match="no prompts/get") as caught:
            await tools.prompt("greet")
    assert caught.value.effect == "none"


async def test_a_question_while_a_resource_is_read_parks_the_run(tmp_path):
    journal = str(tmp_path / "j")

    def once(params):
        done = params.get("inputResponses")
        return {"contents": [NOTES]} if done else asks({"k": form()})

    more = {**MORE, "resources/read": once}
    async with (
        serving(Modern(text("x"), more=more)) as desk,
        open_mcp("d", url=desk.url, resources=True) as tools,
    ):
        agent = calling(tools, ("d_read_resource", {"uri": "note://1"}))
        parked = await run(agent, Request("Read.", run_id="r"), journal=journal)
        assert parked.status is Status.INPUT_REQUIRED
        answers = [Answer(parked.pending[0].id, {"cents": 2})]
        agent = calling(tools, ("d_read_resource", {"uri": "note://1"}))
        done = await resume("r", agent, journal=journal, answers=answers)
    assert done.tool_records[0].outcome.output == {"result": "Pay eve."}
