"""The contract suites, each run on something that keeps it and on something that breaks it."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from upshot import AgentError, Fallback, ModelRequest, ModelResponse, TextDelta, resolve
from upshot.contract import Decider, Observer
from upshot.models import ScriptedModel
from upshot.testing import DeciderContract, ModelContract, ObserverContract, ToolContract
from upshot.tools import ToolError, tool


@tool(effect="read", idempotent=True)
async def length(text: str) -> int:
    """How long a text is."""
    return len(text)


@tool(effect="write", approval=True)
def keep(text: str) -> str:
    """Keeps a text."""
    return text


class TestReader(ToolContract):
    arguments = {"text": "words"}

    def make(self):
        return length


class TestWriter(ToolContract):
    arguments = {"text": "words"}

    def make(self):
        return keep


class TestModel(ModelContract):
    def make(self):
        return ScriptedModel(["Hello yourself."])


class TestObserver(ObserverContract):
    def make(self):
        return Observer()


class TestDecider(DeciderContract):
    def make(self):
        return Decider()


class Raises(ObserverContract, DeciderContract):
    def make(self):
        class Raising(Observer, Decider):
            def on_run_start(self, info, request):
                raise ValueError("an observer that raises")

            def before_model(self, info, request):
                raise ValueError("a decider that raises")

        return Raising()


@pytest.mark.parametrize("name", ["test_it_lets_a_run_be", "test_it_lets_a_plain_run_pass"])
def test_a_hook_that_raises_is_found_out(name):
    with pytest.raises(AssertionError):
        getattr(Raises(), name)()


class OfOneRun(ObserverContract, DeciderContract):
    def make(self):
        class Jealous(Observer, Decider):
            run_id = None

            def on_run_start(self, info, request):
                self.before_model(info, request)

            def before_model(self, info, request):
                self.run_id = self.run_id or info.run_id
                assert self.run_id == info.run_id, "another run"

        return Jealous()


@pytest.mark.parametrize(
    "name",
    ["test_one_of_it_sees_many_runs_at_once", "test_one_of_it_decides_on_many_runs_at_once"],
)
def test_a_hook_for_one_run_only_is_found_out(name):
    with pytest.raises(AssertionError):
        getattr(OfOneRun(), name)()


class Broken(ToolContract):
    """A tool without a description, another one each time, that fails and may have written."""

    arguments = {"words": "text is missing"}
    made = 0

    def make(self):
        self.made += 1

        @tool(effect="read", idempotent=True, name=f"bad_{self.made}")
        async def bad(text: str):
            raise ToolError("always", effect="applied")

        return bad


@pytest.mark.parametrize(
    "name",
    [
        "test_it_says_what_it_does",
        "test_its_schema_is_one",
        "test_it_is_the_same_tool_each_time",
        "test_its_arguments_give_a_result",
        "test_what_claims_to_be_idempotent_can_be_called_again",
    ],
)
def test_a_bad_tool_is_found_out(name):
    with pytest.raises(AssertionError):
        getattr(Broken(), name)()


@tool(effect="write")
async def doubtful(text: str):
    """Keeps a text, or does not."""
    raise ToolError("who knows")


class Doubtful(ToolContract):
    arguments = {"text": "words"}

    def make(self):
        return doubtful


def test_a_writer_that_applies_nothing_is_found_out():
    with pytest.raises(AssertionError):
        Doubtful().test_a_reader_has_no_effect()


class Answer:
    """A sound model, for others to break."""

    name = "test:sound"

    async def call(self, request):
        await asyncio.sleep(0)
        return ModelResponse(content=ModelRequest.of(request).messages[-1].text)

    async def stream(self, request):
        response = await self.call(request)
        yield TextDelta(text=response.content)
        yield response


class Nameless(Answer):
    name = "sound"


class Silent(Answer):
    async def call(self, request):
        return ModelResponse()


class Narrow(Answer):
    """Takes texts only."""

    async def call(self, request):
        assert isinstance(request, str), "give me a text"
        return await super().call(request)


class Chatty(Answer):
    """Says another thing in pieces than as a whole."""

    async def stream(self, request):
        yield TextDelta(text="Well, ")
        async for item in super().stream(request):
            yield item


class Unstoppable(Answer):
    async def call(self, request):
        try:
            return await super().call(request)
        except asyncio.CancelledError:
            return ModelResponse(content="Anyway.")


class TestSoundModel(ModelContract):
    def make(self):
        return Answer()


class TestFallback(ModelContract):
    def make(self):
        down = AgentError("server_error", "Down.")
        return Fallback(ScriptedModel([down], name="test:down"), Answer())


class Wire:
    """A transport that answers every request, whole or streamed."""

    @asynccontextmanager
    async def send(self, method, url, headers, body, *, timeouts):
        await asyncio.sleep(0)
        message = {"role": "assistant", "content": "Hello yourself."}
        if json.loads(body).get("stream"):
            choice = {"index": 0, "delta": message, "finish_reason": "stop"}
            chunk = json.dumps({"model": "any", "choices": [choice]})
            kind, text = "text/event-stream", f"data: {chunk}\n\ndata: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            kind, text = "application/json", json.dumps({"model": "any", "choices": [choice]})

        async def pieces():
            yield text.encode()

        yield 200, [("content-type", kind)], pieces()


class TestHttpModel(ModelContract):
    def make(self):
        return resolve("openai:any", transport=Wire(), api_key="any")


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (Nameless, "test_its_name_says_provider_and_model"),
        (Silent, "test_it_answers_a_text"),
        (Narrow, "test_it_answers_messages"),
        (Narrow, "test_it_answers_a_request"),
        (Chatty, "test_a_stream_ends_in_its_response"),
        (Unstoppable, "test_a_cancel_is_not_swallowed"),
    ],
)
def test_a_bad_model_is_found_out(broken, name):
    class Suite(ModelContract):
        def make(self):
            return broken()

    with pytest.raises(AssertionError):
        getattr(Suite(), name)()
