"""The suite of engines, on agents of other libraries whose model is the one of the suite."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters_real.plays import is_here
from upshot.adapters import as_engine
from upshot.contract import ModelRequest
from upshot.testing import EngineContract


class Down(Exception):
    """What a client raises when the model of the suite is down."""

    status_code = 500


async def asked(suite):
    """Ask the model of the suite: its text and its tokens."""
    reply = await suite.model.call(ModelRequest("A question."))
    if reply.error is not None:
        raise Down(reply.error.message)
    return reply.content, reply.usage


def needs(name):
    return pytest.mark.skipif(not is_here(name), reason=f"{name} is not installed")


@needs("openai_agents")
class TestOpenAIAgents(EngineContract):
    def make(self):
        from agents import Agent, Model, ModelResponse, Usage
        from openai.types.responses import ResponseOutputMessage, ResponseOutputText

        suite = self

        class Asks(Model):
            async def get_response(self, *given, **options):
                text, used = await asked(suite)
                part = ResponseOutputText(text=text, type="output_text", annotations=[])
                said = ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[part]
                )
                counts = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
                usage = Usage(requests=1, total_tokens=used.total_tokens, **counts)
                return ModelResponse(output=[said], usage=usage, response_id=None)

            async def stream_response(self, *given, **options):
                from types import SimpleNamespace

                reply = await self.get_response()
                response = SimpleNamespace(output=reply.output, usage=reply.usage, id="r")
                yield SimpleNamespace(type="response.completed", response=response)

        return as_engine(Agent(name="theirs", model=Asks()))


@needs("adk")
class TestADK(EngineContract):
    def make(self):
        from google.adk.agents import LlmAgent
        from google.adk.models import BaseLlm, LlmResponse
        from google.genai import types

        suite = self

        class Asks(BaseLlm):
            model: str = "asks"

            async def generate_content_async(self, llm_request, stream=False):
                text, used = await asked(suite)
                usage = types.GenerateContentResponseUsageMetadata(
                    prompt_token_count=used.input_tokens,
                    candidates_token_count=used.output_tokens,
                    total_token_count=used.total_tokens,
                )
                content = types.Content(role="model", parts=[types.Part(text=text)])
                yield LlmResponse(content=content, usage_metadata=usage)

        return as_engine(LlmAgent(name="theirs", model=Asks()))


@needs("strands")
class TestStrands(EngineContract):
    def make(self):
        from strands import Agent
        from strands.models import Model

        suite = self

        class Asks(Model):
            def update_config(self, **config):
                pass

            def get_config(self):
                return {"model_id": "asks"}

            def structured_output(self, *given, **options):
                raise NotImplementedError

            async def stream(self, *given, **options):
                text, used = await asked(suite)
                yield {"messageStart": {"role": "assistant"}}
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": text}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "end_turn"}}
                usage = {
                    "inputTokens": used.input_tokens,
                    "outputTokens": used.output_tokens,
                    "totalTokens": used.total_tokens,
                }
                yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}

        return as_engine(lambda: Agent(model=Asks(), callback_handler=None))


@needs("agno")
class TestAgno(EngineContract):
    def make(self):
        from agno.agent import Agent
        from agno.metrics import MessageMetrics
        from agno.models.base import Model
        from agno.models.response import ModelResponse

        suite = self

        @dataclass
        class Asks(Model):
            id: str = "asks"
            provider: Any = "asks"

            async def ainvoke(self, *given, **options):
                text, used = await asked(suite)
                metrics = MessageMetrics(
                    input_tokens=used.input_tokens, output_tokens=used.output_tokens
                )
                return ModelResponse(role="assistant", content=text, response_usage=metrics)

            def invoke(self, *given, **options):
                raise NotImplementedError

            invoke_stream = ainvoke_stream = invoke
            _parse_provider_response = _parse_provider_response_delta = invoke

        return as_engine(Agent(model=Asks(), telemetry=False))


@needs("agent_framework")
class TestAgentFramework(EngineContract):
    def make(self):
        from agent_framework import (
            Agent,
            BaseChatClient,
            ChatMiddlewareLayer,
            ChatResponse,
            ChatResponseUpdate,
            Content,
            FunctionInvocationLayer,
            Message,
            ResponseStream,
        )

        suite = self

        class Asks(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
            def _inner_get_response(self, *, messages, stream, options, **more):
                async def reply():
                    text, used = await asked(suite)
                    usage = {
                        "input_token_count": used.input_tokens,
                        "output_token_count": used.output_tokens,
                        "total_token_count": used.total_tokens,
                    }
                    return text, usage

                async def whole():
                    text, usage = await reply()
                    said = Message(role="assistant", contents=[Content.from_text(text)])
                    return ChatResponse(messages=said, usage_details=usage)

                async def pieces():
                    text, usage = await reply()
                    parts = [Content.from_text(text), Content.from_usage(usage)]
                    yield ChatResponseUpdate(role="assistant", contents=parts)

                if stream:
                    return ResponseStream(pieces(), finalizer=ChatResponse.from_updates)
                return whole()

        return as_engine(Agent(client=Asks()))


def asked_in_thread(suite, loop):
    """Ask the model of the suite from a thread."""
    return asyncio.run_coroutine_threadsafe(asked(suite), loop).result()


@needs("crewai")
class TestCrewAI(EngineContract):
    def make(self):
        from crewai import Agent, BaseLLM

        suite, loop = self, asyncio.get_running_loop()

        class Asks(BaseLLM):
            def call(self, messages, *given, **options):
                text, used = asked_in_thread(suite, loop)
                usage = {
                    "prompt_tokens": used.input_tokens,
                    "completion_tokens": used.output_tokens,
                }
                self._emit_call_completed_event(
                    response=text, call_type="llm_call", usage=usage, finish_reason="stop"
                )
                return text

        return as_engine(Agent(role="r", goal="g", backstory="b", llm=Asks(model="asks")))


@needs("smolagents")
class TestSmolagents(EngineContract):
    def make(self):
        from smolagents import ChatMessage, Model, TokenUsage, ToolCallingAgent
        from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
        from smolagents.monitoring import LogLevel

        suite, loop = self, asyncio.get_running_loop()

        class Asks(Model):
            def generate(self, messages, **options):
                text, used = asked_in_thread(suite, loop)
                answer = ChatMessageToolCallFunction(
                    name="final_answer", arguments={"answer": text}
                )
                return ChatMessage(
                    role="assistant",
                    tool_calls=[ChatMessageToolCall(function=answer, id="a", type="function")],
                    token_usage=TokenUsage(
                        input_tokens=used.input_tokens, output_tokens=used.output_tokens
                    ),
                )

        model = Asks(model_id="asks")
        return as_engine(ToolCallingAgent([], model, verbosity_level=LogLevel.OFF, max_steps=3))
