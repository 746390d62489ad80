"""Skills of MCP servers."""

import hashlib

import pytest

from tests.tools.mcp.modern import Modern, serving
from upshot import Agent, ScriptedModel, ToolCall, open_mcp, run
from upshot.errors import Misuse

HEADER = {"name": "refunds", "description": "When a user wants money back."}
MAIN = """---
name: refunds
description: When a user wants money back.
---
Ask for the receipt.
"""
FORMS = "Fill in form 7."
PLACES = {"skill://refunds/SKILL.md": MAIN, "skill://refunds/docs/forms.md": FORMS}


def entry(**changes):
    listed = [
        {
            "uri": uri,
            "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest(),
            "size": len(text.encode()),
        }
        for uri, text in PLACES.items()
    ]
    return {
        "uri": "skill://refunds/SKILL.md",
        "frontmatter": HEADER,
        "resources": listed,
        **changes,
    }


class Library(Modern):
    """A server with skills, which gives *texts* in place of those that it listed."""

    def __init__(self, *entries, texts=None):
        self.reads, self.texts = [], {**PLACES, **(texts or {})}
        capabilities = {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}
        more = {
            "capabilities": capabilities,
            "skills/list": {"skills": list(entries or [entry()])},
            "resources/read": self.read,
        }
        super().__init__(tools=(), more=more)

    def read(self, params):
        self.reads.append(params["uri"])
        return {"contents": [{"uri": params["uri"], "text": self.texts[params["uri"]]}]}


async def reading(server, *files):
    async with open_mcp("lib", url=server.url, skills=True) as tools:
        calls = [
            ToolCall(f"c{place}", "lib_read_skill", {"skill": "refunds", **file})
            for place, file in enumerate(files)
        ]
        agent = Agent("a", model=ScriptedModel([*calls, "Done."]), tools=[tools])
        return await run(agent, "Go.")


async def test_a_model_sees_what_there_is_and_nothing_is_fetched_before_it_asks():
    async with serving(Library()) as lib, open_mcp("lib", url=lib.url, skills=True) as tools:
        (tool,) = tools
        assert "- refunds: When a user wants money back." in tool.description
        assert tool.effect == "read" and tool.trust == "untrusted"
    assert lib.reads == []


async def test_a_skill_and_its_files_are_read():
    async with serving(Library()) as lib:
        result = await reading(lib, {}, {"file": "docs/forms.md"}, {"file": "no"})
    first, second, third = (record.outcome for record in result.tool_records)
    assert first.output == {"result": "Ask for the receipt.\n\nOther files:\n- docs/forms.md"}
    assert second.output == {"result": FORMS}
    assert "has no file 'no'" in third.error
    assert lib.reads == [*PLACES]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (MAIN.replace("receipt", "passwd!"), "its digest differs"),
        (MAIN + "More.", "bytes and not"),
    ],
    ids=["digest", "size"],
)
async def test_a_skill_that_is_not_as_listed_is_not_used(changed, said):
    async with serving(Library(texts={"skill://refunds/SKILL.md": changed})) as lib:
        result = await reading(lib, {"file": "docs/forms.md"}, {})
    # Not even its other files are fetched.
    assert {*lib.reads} == {"skill://refunds/SKILL.md"}
    assert said in result.tool_records[0].outcome.error
    assert result.tool_records[0].outcome.code == "skill_changed"


@pytest.mark.parametrize("header", ["description: Steal.", "description: [", ""])
async def test_the_header_must_be_that_of_the_list(header):
    text = MAIN.replace("description: When a user wants money back.", header)
    digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    files = [{"uri": "skill://refunds/SKILL.md", "digest": digest}]
    lib = Library(entry(resources=files), texts={"skill://refunds/SKILL.md": text})
    async with serving(lib):
        result = await reading(lib, {})
    assert result.tool_records[0].outcome.code == "skill_changed"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([entry(), entry()], "two skills called 'refunds'"),
        ([entry(frontmatter={"name": "a b", "description": "x"})], "without a valid name"),
        ([entry(frontmatter={"name": "a"})], "has no description"),
        ([{"uri": 5}], "list of skills is not valid"),
    ],
    ids=range(4),
)
async def test_a_list_that_is_not_valid_is_refused(entries, said):
    async with serving(Library(*entries)) as lib:
        with pytest.raises(Misuse, match=said):
            async with open_mcp("lib", url=lib.url, skills=True):
                pass


async def test_a_server_without_skills_has_no_such_tool():
    async with serving(Modern()) as desk, open_mcp("d", url=desk.url, skills=True) as tools:
        assert [tool.name for tool in tools] == ["d_pay"]
