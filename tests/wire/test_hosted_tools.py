"""Tools that a provider runs itself: asked for in its own form, beside the caller's tools."""

import pytest

from tests.wire.talk import body_of
from upshot import Agent, run
from upshot.contract import Message, ModelSettings, ToolSpec
from upshot.contract.codec import decode, encode
from upshot.errors import Misuse
from upshot.models import ScriptedModel
from upshot.wire import make_request_encoder

TOOL = ToolSpec(name="f", parameters={"type": "object"})
OWN = {"type": "file_search", "vector_store_ids": ["vs_1"]}


def fields(surface, provider, *hosted, model="m", tools=(), **settings):
    made = make_request_encoder(surface, provider=provider)
    made.append(Message("user", "Look."))
    asked = ModelSettings(hosted_tools=hosted, **settings)
    return body_of(made, model=model, tools=tools, settings=asked)


SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
INTERPRETER = {"type": "code_interpreter"}


@pytest.mark.parametrize(
    ("surface", "provider", "name", "form"),
    [
        ("responses", "openai", "web_search", {"type": "web_search"}),
        ("responses", "azure", "code_execution", {**INTERPRETER, "container": {"type": "auto"}}),
        ("responses", "xai", "code_execution", INTERPRETER),
        ("responses", "openai", "image_generation", {"type": "image_generation"}),
        ("messages", "anthropic", "web_search", SEARCH),
        ("messages", "anthropic", "web_fetch", FETCH),
        ("messages", "anthropic", "code_execution", CODE),
        ("invoke", "bedrock", "web_search", SEARCH),
        ("generate", "google", "web_search", {"googleSearch": {}}),
        ("generate", "vertex", "code_execution", {"codeExecution": {}}),
        ("generate", "google", "web_fetch", {"urlContext": {}}),
        ("chat", "groq", "web_search", {"type": "browser_search"}),
        ("chat", "groq", "code_execution", INTERPRETER),
        ("chat", "openrouter", "web_search", {"type": "openrouter:web_search"}),
    ],
)
def test_a_name_is_sent_in_the_form_of_the_provider(surface, provider, name, form):
    assert fields(surface, provider, name)["tools"] == [form]


def test_converse_asks_for_the_tools_of_amazons_models():
    config = fields("converse", "bedrock", "web_search", "code_execution")["toolConfig"]
    names = [tool["systemTool"]["name"] for tool in config["tools"]]
    assert names == ["nova_grounding", "nova_code_interpreter"]


SURFACES = ["chat", "responses", "messages", "generate", "converse", "invoke"]


@pytest.mark.parametrize("surface", SURFACES)
def test_an_object_is_sent_as_it_is_before_the_callers_tools(surface):
    made = fields(surface, "p", OWN, tools=(TOOL,))
    tools = made["toolConfig"]["tools"] if surface == "converse" else made["tools"]
    assert (tools[0], len(tools)) == (OWN, 2)


@pytest.mark.parametrize("surface", SURFACES)
def test_a_name_that_a_provider_does_not_have_is_misuse(surface):
    with pytest.raises(Misuse, match="has no hosted tool 'telepathy'"):
        fields(surface, "p", "telepathy")


@pytest.mark.parametrize(
    ("model", "tools", "both"),
    [
        ("gemini-3-pro", (TOOL,), True),
        ("gemini-3-pro", (), None),
        ("gemini-2.5-pro", (TOOL,), None),
    ],
)
def test_gemini_is_told_that_both_kinds_of_tools_are_used(model, tools, both):
    made = fields("generate", "google", "web_search", model=model, tools=tools)
    assert made.get("toolConfig", {}).get("includeServerSideToolInvocations") is both


def test_the_mark_of_the_cache_stays_on_the_last_tool():
    tools = fields("messages", "anthropic", "web_search", tools=(TOOL,), cache=True)["tools"]
    assert ["cache_control" in tool for tool in tools] == [False, True]


def test_a_request_does_not_change_the_table_of_forms():
    first = fields("messages", "anthropic", "web_search", cache=True)["tools"]
    assert "cache_control" in first[0]
    assert "cache_control" not in fields("messages", "anthropic", "web_search")["tools"][0]


def test_the_setting_is_a_value():
    settings = ModelSettings(hosted_tools="web_search")
    assert settings.hosted_tools == ("web_search",)
    both = ModelSettings(hosted_tools=("web_search", OWN))
    assert decode(encode(both), ModelSettings) == both
    assert settings.merge(both).hosted_tools == both.hosted_tools
    assert both.merge(ModelSettings()).hosted_tools == both.hosted_tools


async def test_a_run_passes_it_on():
    model = ScriptedModel(["Done."])
    agent = Agent("a", model=model, settings=ModelSettings(hosted_tools=("web_search",)))
    assert (await run(agent, "Look.")).success
    assert model.calls[0].settings.hosted_tools == ("web_search",)
