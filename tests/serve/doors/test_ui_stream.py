"""The agents of an App behind the AI SDK's ``useChat``: chunks of what a run tells its user."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import aiohttp
import pytest

from tests.serve.doors.asking import agents, pay
from tests.serve.kit import Client, served
from upshot import Agent, App, Decider, FinalizeDecision, ScriptedModel, ToolCall, ToolContext, tool

HEADER = "x-vercel-ai-ui-message-stream"


@tool(public=lambda arguments: {"order": arguments["order"]}, public_name="lookup")
def find_order(context: ToolContext[None], order: int, secret: str = "s3cret") -> str:
    """Find an order."""
    context.progress("looking")
    return "what only the model reads"


@tool(effect="write")
def ship(order: int) -> str:
    """Ship an order."""
    return "shipped"


class Never(Decider):
    """Lets no answer out."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.discard("it must not be said")


class Chat:
    """A page that talks with an agent, as the SDK's chat does."""

    def __init__(self, client: Client, agent: str, id: str = "chat-1") -> None:
        self.client, self.agent, self.id = client, agent, id
        self.messages: list[dict[str, Any]] = []
        self._ids = itertools.count(1)

    async def post(self, **more: Any) -> tuple[int, Any]:
        """The status, and the chunks or what is wrong."""
        body = {"id": self.id, "messages": self.messages, "trigger": "submit-message", **more}
        return await self._ask("POST", f"/ui/{self.agent}", body)

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        asking = self.client.session.request(
            method,
            self.client.url + path,
            json=body,
            headers=self.client.headers,
            timeout=aiohttp.ClientTimeout(30),
        )
        async with asking as response:
            if response.content_type != "text/event-stream":
                text = await response.text()
                return response.status, json.loads(text) if text else None
            assert response.headers[HEADER] == "v1"
            lines = (await response.text()).splitlines()
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert data.pop() == "[DONE]"
        return 200, [json.loads(one) for one in data]

    async def say(self, text: str, **more: Any) -> list[Any]:
        """Say something; gives the chunks of the answer, which is added to the messages."""
        said = {"id": f"m-{next(self._ids)}", "role": "user", "parts": [text_part(text)]}
        self.messages.append(said)
        status, chunks = await self.post(**more)
        assert status == 200, chunks
        return self.read(chunks)

    def read(self, chunks: list[Any]) -> list[Any]:
        message: dict[str, Any] = self.messages[-1]
        if message["role"] == "user":
            message = {"id": "", "role": "assistant", "parts": []}
            self.messages.append(message)
        parts = message["parts"]
        for chunk in chunks:
            match chunk:
                case {"type": "start"}:
                    message["id"] = chunk["messageId"]
                case {"type": "text-start"}:
                    parts.append({"type": "text", "text": ""})
                case {"type": "text-delta"}:
                    parts[-1]["text"] += chunk["delta"]
                case {"type": "tool-input-available"}:
                    name = f"tool-{chunk['toolName']}"
                    parts.append({**chunk, "type": name, "state": "input-available"})
                case {"type": "tool-approval-request"}:
                    self.call(chunk["toolCallId"]).update(
                        state="approval-requested", approval={"id": chunk["approvalId"]}
                    )
                case {"type": "tool-output-available"}:
                    self.call(chunk["toolCallId"]).update(state="output-available")
                case {"type": "tool-output-error"}:
                    self.call(chunk["toolCallId"]).update(state="output-error")
                case _:
                    pass
        return chunks

    def call(self, id: str) -> dict[str, Any]:
        (part,) = [one for one in self.messages[-1]["parts"] if one.get("toolCallId") == id]
        return part

    async def decide(self, id: str, approved: bool) -> tuple[int, Any]:
        part = self.call(id)
        part["state"] = "approval-responded"
        part["approval"] = {**part["approval"], "approved": approved}
        return await self.post(messageId=self.messages[-1]["id"])

    async def answer(self, id: str, output: Any) -> tuple[int, Any]:
        self.call(id).update(state="output-available", output=output)
        return await self.post(messageId=self.messages[-1]["id"])

    async def shown(self) -> list[Any]:
        """The messages that the site has of the chat."""
        _, said = await self._ask("GET", f"/ui/{self.agent}/{self.id}")
        return said["messages"]

    async def resume(self) -> tuple[int, Any]:
        return await self._ask("GET", f"/ui/{self.agent}/{self.id}/stream")


def text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def kinds(chunks: list[Any]) -> list[str]:
    return [chunk["type"] for chunk in chunks if chunk["type"] != "text-delta"]


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def app(*more: Agent[Any], journal: Any = "memory:", **options: Any) -> App:
    return App([*agents(), *more], journal=journal, **options)


async def test_a_chat_is_a_conversation_and_an_answer_a_run() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "echo")
        chunks = await chat.say("Hello")
        await chat.say("More")
        shown = await chat.shown()
        runs = (await site.by("oz").get("/api/runs?conversation=chat-1~cal"))[1]["runs"]
    assert kinds(chunks) == ["start", "start-step", "text-start", "text-end", "finish"]
    assert chunks[-1]["finishReason"] == "stop"
    assert [text_of(one) for one in chat.messages] == [
        "Hello",
        "You said Hello",
        "More",
        "You said More",
    ]
    assert [(one["id"], text_of(one)) for one in shown] == [
        (one["id"], text_of(one)) for one in chat.messages
    ]
    assert [run["run_id"] for run in runs] == [chat.messages[3]["id"], chat.messages[1]["id"]]
    assert {run["owner"] for run in runs} == {"cal"}


async def test_calls_are_shown_by_their_public_names_and_nothing_of_what_they_give() -> None:
    calls = [
        ToolCall("f", "find_order", {"order": 7}),
        ToolCall("s", "ship", {"order": 7}),
        "It is on its way.",
    ]
    clerk = Agent("shop", model=ScriptedModel([*calls]), tools=[find_order, ship])
    async with served(app(clerk)) as site:
        chunks = await Chat(site.by("cal"), "shop").say("Where is it?")
    told = [chunk for chunk in chunks if "toolCallId" in chunk]
    assert [(one["type"], one.get("toolName"), one.get("input")) for one in told[:1]] == [
        ("tool-input-available", "lookup", {"order": 7})
    ]
    # What a tool says of its progress is told to who listens then.
    assert [one["output"] for one in told[1:] if not one.get("preliminary")] == [{}]
    assert all(one["output"] == {"progress": "looking"} for one in told[1:-1])
    assert "s3cret" not in str(chunks) and "only the model" not in str(chunks)
    assert "ship" not in str(chunks)


@pytest.mark.parametrize("approved", [True, False])
async def test_an_approval_of_the_user_is_asked_in_place(approved: bool) -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "payer")
        chunks = await chat.say("Pay it.")
        assert kinds(chunks)[-3:] == ["tool-input-available", "tool-approval-request", "finish"]
        assert chunks[-1]["finishReason"] == "tool-calls"
        assert chat.call("p")["input"] == {"order": 1}
        status, more = await chat.decide("p", approved)
        assert status == 200, more
        chat.read(more)
        run = chat.messages[-1]["id"]
        _, log = await site.by("oz").get(f"/api/runs/{run}")
        assert text_of(chat.messages[-1]) == "Paid."
        assert (log["head"].get("effect") == "applied") is approved
        # What is sent again is answered already.
        status, said = await chat.decide("p", True)
        assert status == 409 and "waited for any more" in said["error"]
    assert more[0] == {"type": "start", "messageId": run}
    # A step of its own: the page does not take the answered call for one that it must send.
    assert "start-step" in kinds(more)


async def test_a_yes_counts_for_what_was_shown() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "payer")
        await chat.say("Pay it.")
        chat.call("p")["approval"] = {"id": "p 0000"}
        status, said = await chat.decide("p", True)
        assert status == 409 and "too late" in said["error"]
        _, inbox = await site.by("oz").get("/api/inbox")
        assert len(inbox["items"]) == 1


@pytest.mark.parametrize(("approved", "state"), [(True, "available"), (False, "denied")])
async def test_what_was_decided_stands_in_the_message(approved: bool, state: str) -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "payer")
        await chat.say("Pay it.")
        mark = chat.call("p")["approval"]["id"]
        _, more = await chat.decide("p", approved)
        shown = (await chat.shown())[-1]["parts"]
    told = [one for one in more if "approved" in one or "toolCallId" in one]
    assert told[0] == {
        "type": "tool-approval-response",
        "approvalId": mark,
        "approved": approved,
    }
    assert [one["type"] for one in told[1:]] == [f"tool-output-{state}"]
    (part,) = [one for one in shown if one["type"] == "tool-pay"]
    assert part["state"] == f"output-{state}"
    assert part["approval"] == {"id": mark, "approved": approved}


async def test_a_call_that_the_run_left_open_did_not_finish() -> None:
    @tool(effect="read", public=True)
    async def hold() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return ""

    holder = Agent("holder", model=ScriptedModel([ToolCall("h", "hold", {})]), tools=[hold])
    async with served(app(holder)) as site:
        chat, oz = Chat(site.by("cal"), "holder"), site.by("oz")
        saying = asyncio.create_task(chat.say("Hold it."))
        while not (runs := (await oz.get("/api/runs?agent=holder"))[1]["runs"]):
            await asyncio.sleep(0)
        await oz.post(f"/api/runs/{runs[0]['run_id']}/cancel")
        chunks = await saying
    left = {one["toolCallId"] for one in chunks if one["type"] == "tool-input-available"}
    failed = [one for one in chunks if one["type"] == "tool-output-error"]
    assert left == {one["toolCallId"] for one in failed}
    # Whether it was done may be unknown, and be settled later.
    assert {one["errorText"] for one in failed} == {"It did not finish."}
    assert chunks[-1]["finishReason"] == "interrupted"


@pytest.mark.parametrize("approved", [True, False])
async def test_the_call_of_an_agent_inside_ends_in_its_place(approved: bool) -> None:
    teller = Agent("teller", model=ScriptedModel([ToolCall("p", "pay", {"order": 1}), "Paid."]))
    ask = ToolCall("c", "teller", {"request": "Pay it."})
    tools = [teller.but(tools=[pay])]
    boss = Agent("boss", model=ScriptedModel([ask, "All done."]), tools=tools)
    async with served(App([boss], journal="memory:")) as site:
        chat = Chat(site.by("cal"), "boss")
        await chat.say("Pay it.")
        mark = chat.call("p")["approval"]["id"]
        _, chunks = await chat.decide("p", approved)
        shown = (await chat.shown())[-1]["parts"]
    settled = {"type": "tool-output-available", "toolCallId": "p", "output": {}}
    denied = {"type": "tool-output-denied", "toolCallId": "p"}
    assert chunks[1] == {
        "type": "tool-approval-response",
        "approvalId": mark,
        "approved": approved,
    }
    ends = [one for one in chunks if one.get("toolCallId") == "p"]
    assert ends == [{**settled, "providerExecuted": True} if approved else denied]
    # Before what the outer agent says of it.
    assert kinds(chunks).index(ends[0]["type"]) < kinds(chunks).index("text-start")
    (part,) = [one for one in shown if one.get("toolCallId") == "p"]
    assert part["state"] == ("output-available" if approved else "output-denied")
    assert part["approval"] == {"id": mark, "approved": approved}


async def test_a_question_is_a_call_that_the_page_answers() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "tailor")
        chunks = await chat.say("A shirt, please.")
        (asked,) = [one for one in chunks if one["type"] == "tool-input-available"]
        assert asked["toolName"] == "ask_user" and "providerExecuted" not in asked
        assert asked["input"] == {"question": "Which size?", "choices": ["S", "M"]}
        status, said = await chat.answer(asked["toolCallId"], "XXL")
        assert status == 400 and "XXL" in said["error"]
        status, more = await chat.answer(asked["toolCallId"], "M")
        assert status == 200, more
        chat.read(more)
        (part,) = [one for one in (await chat.shown())[-1]["parts"] if "toolCallId" in one]
    assert text_of(chat.messages[-1]) == "Size M."
    # A page that is opened anew is not asked again.
    assert (part["state"], part["output"]) == ("output-available", "M")


async def test_whether_a_call_took_effect_is_a_question_too() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "wirer")
        chunks = await chat.say("Wire it.")
        inputs = [one for one in chunks if one["type"] == "tool-input-available"]
        (asked,) = [one for one in inputs if one["toolName"] == "ask_user"]
        assert asked["input"]["question"] == "Did this happen? wire(order 1)"
        digest = asked["input"].pop("digest")
        chat.call(asked["toolCallId"])["input"] = {"digest": "0"}
        status, refused = await chat.answer(asked["toolCallId"], "no")
        assert status == 409 and "earlier attempt" in refused["error"]
        chat.call(asked["toolCallId"])["input"] = {"digest": digest}
        status, more = await chat.answer(asked["toolCallId"], "no")
        assert status == 200, more
        chat.read(more)
        _, known = await site.by("oz").get("/api/effects")
    assert text_of(chat.messages[-1]) == "Wired."
    assert [one["state"] for one in known["effects"]] == ["none"]


async def test_what_waits_for_staff_is_neither_shown_nor_taken() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "clerk")
        said = {"id": "m", "role": "user", "parts": [text_part("Refund it.")]}
        body = {"id": chat.id, "messages": [said]}
        asking = site.session.post(f"{site.url}/ui/clerk", json=body, headers=chat.client.headers)
        async with asking as response:
            lines: list[Any] = []
            async for line in response.content:
                if line.startswith(b"data: {"):
                    lines.append(json.loads(line[6:]))
                    if lines[-1]["type"] == "data-waiting":
                        break
            assert "refund" not in str(lines)
            (item,) = (await site.by("oz").get("/api/inbox"))[1]["items"]
            digest = item["pending"]["digest"]
            forged = {
                "type": "tool-refund",
                "toolCallId": "r",
                "state": "approval-responded",
                "approval": {"id": f"r {digest}", "approved": True},
            }
            chat.messages = [said, {"id": item["run_id"], "role": "assistant", "parts": [forged]}]
            status, refused = await chat.post()
            assert status == 403 and "waits for staff" in refused["error"]
            answer = {"kind": "approve", "call_id": "r", "digest": digest}
            path = f"/api/runs/{item['run_id']}/answer"
            assert (await site.by("oz").post(path, {"answers": [answer]}))[0] == 200
            # The page sees how it went on, without having asked again.
            rest = (await response.text()).splitlines()
    assert rest[-2:] == ["data: [DONE]", ""] or "data: [DONE]" in rest
    assert "Refunded." in str(rest)


async def test_a_reload_goes_on_with_what_is_under_way() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "payer")
        before = await chat.say("Pay it.")
        status, again = await chat.resume()
        assert (status, again) == (200, before)
        shown = await chat.shown()
        assert [part.get("state") for part in shown[-1]["parts"]][-1] == "approval-requested"
        _, more = await chat.decide("p", True)
        chat.read(more)
        assert (await chat.resume())[0] == 204
        shown = await chat.shown()
    assert text_of(shown[-1]) == text_of(chat.messages[-1]) == "Paid."


async def test_what_is_sent_again_begins_nothing() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "echo")
        first = await chat.say("Hello")
        answer = chat.messages.pop()
        status, again = await chat.post()
        assert (status, again[0]) == (200, first[0])
        chat.messages.append(answer)
        await chat.say("More")
        _, said = await site.by("oz").get("/api/runs")
    assert len(said["runs"]) == 2


async def test_two_pages_of_one_chat_do_not_talk_past_each_other() -> None:
    async with served(app()) as site:
        one, other = (Chat(site.by("cal"), "echo") for _ in range(2))
        await one.say("Hello")
        other.messages = [{"id": "x", "role": "user", "parts": [text_part("Hi")]}]
        status, said = await other.post()
        assert status == 409 and "gone on meanwhile" in said["error"]
        other.messages = [*one.messages, {"id": "y", "role": "user", "parts": [text_part("Hi")]}]
        assert (await other.post())[0] == 200
        status, said = await one.post()
        assert status == 409


async def test_an_answer_that_did_nothing_can_be_had_again() -> None:
    said: list[list[str]] = []

    def model(messages: Any) -> str:
        said.append([message.text for message in messages])
        return f"Answer {len(said)}"

    async with served(app(Agent("talker", model=ScriptedModel(model)))) as site:
        chat = Chat(site.by("cal"), "talker")
        await chat.say("One")
        await chat.say("Two")
        answer = chat.messages.pop()
        status, chunks = await chat.post(trigger="regenerate-message", messageId=answer["id"])
        assert status == 200, chunks
        chat.read(chunks)
        await chat.say("Three")
        shown = await chat.shown()
        # The way that was left stays as it was.
        _, first = await site.by("oz").get("/api/conversations/chat-1~cal")
    assert said[2] == ["One", "Answer 1", "Two"]
    assert said[3] == ["One", "Answer 1", "Two", "Answer 3", "Three"]
    assert [text_of(one) for one in shown] == ["Two", "Answer 3", "Three", "Answer 4"]
    assert len(first["runs"]) == 2


async def test_another_answer_is_had_as_often_as_it_is_wanted() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "echo")
        await chat.say("Hello")
        ids = [chat.messages.pop()["id"]]
        # The page need not say which answer it is that it has no more.
        for given in ({}, {}, {"messageId": "m-1"}, {"messageId": "m-1"}):
            status, chunks = await chat.post(trigger="regenerate-message", **given)
            assert status == 200, chunks
            ids.append(chunks[0]["messageId"])
    assert len({*ids}) == 5


async def test_an_answer_that_did_something_stays() -> None:
    shipping = [ToolCall("s", "ship", {"order": 7}), "Shipped."] * 2
    clerk = Agent("shop", model=ScriptedModel(shipping), tools=[ship])
    async with served(app(clerk)) as site:
        chat = Chat(site.by("cal"), "shop")
        await chat.say("Ship it.")
        answer = chat.messages.pop()
        status, said = await chat.post(trigger="regenerate-message", messageId=answer["id"])
        _, runs = await site.by("oz").get("/api/runs")
    assert status == 409 and "cannot be taken back" in said["error"]
    assert len(runs["runs"]) == 1


async def test_the_chat_of_another_is_as_if_it_were_not_there() -> None:
    async with served(app()) as site:
        chat = Chat(site.by("cal"), "payer")
        await chat.say("Pay it.")
        thief = Chat(site.by("ben"), "payer")
        assert (await thief.resume())[0] == 204
        assert await thief.shown() == []
        thief.messages = chat.messages
        assert (await thief.decide("p", True))[0] == 404
        thief.messages = [{"id": "m", "role": "user", "parts": [text_part("Hi")]}]
        # A name that is another's is as good as a free one.
        assert (await thief.post())[0] == 200
        assert text_of((await thief.shown())[0]) == "Hi"
        assert text_of((await chat.shown())[0]) == "Pay it."
        nobody = Chat(site, "payer")
        nobody.messages = thief.messages
        assert (await nobody.post())[0] == 401


async def test_text_that_may_still_be_thrown_away_is_not_shown() -> None:
    agent = Agent("judged", model=ScriptedModel(["A secret slips."]), deciders=[Never()])
    async with served(app(agent)) as site:
        chat = Chat(site.by("cal"), "judged")
        chunks = await chat.say("Hello")
    assert "secret" not in str(chunks)
    assert chunks[-1]["type"] == "finish"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "truncated"),
        (b"{}", "missing required field"),
        (b'{"id": "c", "messages": []}', "at least one message"),
        (b'{"id": "a/b", "messages": [{"id": "m", "role": "user"}]}', "without a slash"),
        (b'{"id": "c", "messages": [{"id": "m", "role": "user"}]}', "has no parts"),
        (b'{"id": "c", "messages": [{"id": "m", "role": "system"}]}', "only what the user says"),
        (
            b'{"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "x"}]}]}',
            "text and files",
        ),
        (
            b'{"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "file",'
            b' "mediaType": "text/plain", "url": "http://elsewhere"}]}]}',
            "data:...;base64",
        ),
    ],
)
async def test_what_is_no_message_is_one_sentence(body: bytes, words: str) -> None:
    async with served(app()) as site:
        status, said = await site.by("cal").ask("POST", "/ui/echo", body)
        nowhere, _ = await site.by("cal").ask("POST", "/ui/none", body)
    assert (status, nowhere) == (400, 404)
    assert words in said["error"]
