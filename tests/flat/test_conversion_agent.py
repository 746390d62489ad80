"""An agent as flat code calls one."""

from upshot.contract import AgentError, ModelResponse
from upshot.flat import FinishReason, FlatAgent
from upshot.models import ScriptedModel


async def test_a_call_gives_the_flat_form_of_the_reply():
    response = await FlatAgent(ScriptedModel(["Hi"])).call(prompt="Hello")
    assert (response.content, response.finish_reason) == ("Hi", FinishReason.STOP)


async def test_an_error_is_a_value():
    error = AgentError("rate_limit", "slow down", retryable=True)
    model = ScriptedModel([ModelResponse(error=error, finish_reason="error")])
    response = await FlatAgent(model).call("Hello")
    assert response.error.code == "rate_limit"


async def test_the_instructions_and_the_prompt_are_sent():
    seen = []
    model = ScriptedModel([lambda messages: seen.extend(messages) or "Hi"])
    await FlatAgent(model, system="Be brief.").call("Hello")
    assert seen[-1].text == "Hello"


def test_provider_and_model_are_those_of_the_name():
    agent = FlatAgent(ScriptedModel(["Hi"]))
    assert agent.provider == "scripted"
