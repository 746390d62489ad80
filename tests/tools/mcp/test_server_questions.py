"""Questions of MCP servers to the user, during a call of a run."""

import asyncio
import signal
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from mcp_types import CreateMessageRequestParams, ElicitRequestFormParams

from tests.processes import start_python
from tests.tools.mcp.modern import FORM, Modern, asks, form, link, sample, serving, text
from upshot import (
    Agent,
    Answer,
    Budget,
    Effect,
    ModelResponse,
    ModelStarted,
    PendingQuestion,
    Policy,
    QuestionAnswered,
    QuestionAsked,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    Usage,
    open_mcp,
    replay,
    resume,
    run,
    start,
)
from upshot.state.run_state import RunState
from upshot.tools.mcp.server_requests import Abilities, OpenCall, ServerRequests

CALL = ToolCall("c1", "bank_pay", {"to": "eve"})


def agent_with(tools):
    return Agent("clerk", model=ScriptedModel([CALL, "Done."]), tools=[tools])


async def pay(server, journal, *, answers=None, run_id="r1", more=None, **options):
    """Run, or resume with answers, with the tools of *server*."""
    async with open_mcp("bank", url=server.url, **options) as bank:
        agent, more = agent_with(bank), more or {}
        if answers is None:
            return await run(agent, Request("Pay eve.", run_id=run_id), journal=journal, **more)
        return await resume(run_id, agent, journal=journal, answers=answers, **more)


async def test_a_question_parks_the_run_and_its_answer_goes_back_with_the_state(tmp_path):
    journal = str(tmp_path / "runs.db")
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        parked = await pay(bank, journal)
        assert parked.status is Status.INPUT_REQUIRED
        (question,) = parked.pending
        assert isinstance(question, PendingQuestion)
        assert (question.question, question.schema) == ("The MCP server bank asks: How much?", FORM)
        assert question.source == "MCP server bank"
        done = await pay(bank, journal, answers=[Answer(question.id, {"cents": 5})])
    assert done.content == "Done."
    assert [one.get("requestState") for one in bank.calls] == [None, "s1"]
    response = {"action": "accept", "content": {"cents": 5, "note": "none"}}
    assert bank.responses == [None, {"k": response}]
    (record,) = done.tool_records
    assert (record.outcome.output, record.effect) == ({"result": "paid"}, Effect.APPLIED)


@pytest.mark.parametrize(
    ("answer", "action"),
    [("decline", "decline"), ("cancel", "cancel"), (None, "cancel"), ("accept", None)],
)
async def test_a_user_may_decline(tmp_path, answer, action):
    schema = {"type": "object", "properties": {"note": {"type": "string", "default": "x"}}}
    async with serving(Modern(asks({"k": form(schema=schema)}), text("so be it"))) as bank:
        parked = await pay(bank, str(tmp_path / "j"))
        await pay(bank, str(tmp_path / "j"), answers=[Answer(parked.pending[0].id, answer)])
    response = bank.responses[1]["k"]
    assert response["action"] == (action or "accept")
    assert response.get("content") == (None if action else {"note": "x"})


async def test_an_answer_that_does_not_fit_is_asked_for_again(tmp_path):
    journal = str(tmp_path / "j")
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        first = (await pay(bank, journal)).pending[0]
        again = (await pay(bank, journal, answers=[Answer(first.id, {"cents": 0})])).pending[0]
        assert again.id != first.id
        assert "The last answer does not fit: /cents" in again.question
        assert len(bank.calls) == 1
        done = await pay(bank, journal, answers=[Answer(again.id, {"cents": 7})])
    assert done.success and bank.responses[1]["k"]["content"]["cents"] == 7


async def test_a_link_is_a_question_with_choices(tmp_path):
    journal = str(tmp_path / "j")
    async with serving(Modern(asks({"k": link()}), text("paid"))) as bank:
        (question,) = (await pay(bank, journal)).pending
        assert question.choices == ("accept", "decline", "cancel")
        assert "https://bank.example/in" in question.question
        await pay(bank, journal, answers=[Answer(question.id, "accept")])
    assert bank.responses[1]["k"]["action"] == "accept"


async def test_a_server_may_ask_several_times(tmp_path):
    journal = str(tmp_path / "j")
    script = (asks({"k": form()}), asks({"k": form(), "l": form("And?")}, "s2"), text("paid"))
    async with serving(Modern(*script)) as bank:
        (first,) = (await pay(bank, journal)).pending
        second = await pay(bank, journal, answers=[Answer(first.id, {"cents": 1})])
        assert len(second.pending) == 2
        some = await pay(bank, journal, answers=[Answer(second.pending[0].id, {"cents": 2})])
        assert some.pending == (second.pending[1],)
        assert len(bank.calls) == 2
        await pay(bank, journal, answers=[Answer(some.pending[0].id, {"cents": 3})])
    assert [one.get("requestState") for one in bank.calls] == [None, "s1", "s2"]


async def test_a_function_may_answer_at_once(tmp_path):
    async def elicit(question):
        return {"cents": 0} if "not fit" not in question.question else {"cents": 9}

    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        done = await pay(bank, str(tmp_path / "j"), elicit=elicit)
    assert done.success and bank.responses[1]["k"]["content"]["cents"] == 9


async def test_a_function_that_cannot_answer_leaves_the_question_to_the_run(tmp_path):
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        parked = await pay(bank, str(tmp_path / "j"), elicit=lambda question: None)
    assert parked.status is Status.INPUT_REQUIRED


async def test_the_host_of_the_run_may_answer_and_sees_who_asks(tmp_path):
    class Host:
        asked = None

        async def ask_user(self, question):
            self.asked = question
            return {"cents": 4}

    host = Host()
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        done = await pay(bank, str(tmp_path / "j"), more={"host": host})
    assert done.success and host.asked == "The MCP server bank asks: How much?"
    assert bank.responses[1]["k"]["content"]["cents"] == 4


async def test_a_call_that_is_only_put_off_is_made_again(tmp_path):
    later = {"resultType": "input_required", "requestState": "wait"}
    async with serving(Modern(later, text("paid"))) as bank:
        done = await pay(bank, str(tmp_path / "j"))
    assert done.success and bank.calls[1]["requestState"] == "wait"


@pytest.mark.parametrize(("source", "typed"), [("", {"q": "EVE99"}), ("MCP server bank", {})])
def test_an_answer_to_a_stranger_is_not_the_user_s_own_words(source, typed):
    """It may only repeat what the stranger offered, so it vouches for no value of a call."""
    state = RunState()
    state.add(QuestionAsked(seq=1, pending=PendingQuestion(id="q", source=source)))
    state.add(QuestionAnswered(seq=2, id="q", value="EVE99"))
    assert state.typed == typed


async def test_a_parked_call_that_is_not_continued_has_an_unknown_effect(tmp_path):
    journal = str(tmp_path / "j")
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        await pay(bank, journal)
        # The tools are gone when the run continues.
        agent = Agent("clerk", model=ScriptedModel([CALL, "Done."]))
        result = await resume("r1", agent, journal=journal)
    assert [one.state for one in result.effects] == [Effect.UNKNOWN]
    assert len(bank.calls) == 1


async def test_without_a_run_a_question_is_cancelled():
    from upshot import Toolbox

    async with (
        serving(Modern(asks({"k": form()}), text("not paid"))) as bank,
        open_mcp("bank", url=bank.url) as tools,
    ):
        (outcome,) = await Toolbox([tools]).dispatch([CALL])
    assert outcome.output == {"result": "not paid"}
    assert bank.responses[1]["k"]["action"] == "cancel"


async def test_a_question_comes_after_the_approval_of_its_call(tmp_path):
    journal = str(tmp_path / "j")
    policy = {"policy": Policy(taint="ask")}
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        asked = (await pay(bank, journal, more=policy)).pending
        assert [one.kind for one in asked] == ["pending_approval"]
        approved = [asked[0].approve()]
        (question,) = (await pay(bank, journal, answers=approved, more=policy)).pending
        assert question.kind == "pending_question"
        answers = [Answer(question.id, {"cents": 5})]
        done = await pay(bank, journal, answers=answers, more=policy)
    assert done.success and len(bank.calls) == 2
    assert done.taint is not None


async def test_a_cancelled_run_makes_no_second_request(tmp_path):
    async with (
        serving(Modern(asks({"k": form()}), "hang")) as bank,
        open_mcp("bank", url=bank.url, elicit=lambda question: {"cents": 1}) as tools,
        start(agent_with(tools), "Pay eve.", journal=str(tmp_path / "j")) as live,
    ):
        await bank.hung.wait()
        live.cancel()
        result = await live.result()
    assert result.status is Status.CANCELED
    assert [one.state for one in result.effects] == [Effect.UNKNOWN]
    assert len(bank.calls) == 2


async def test_a_replay_asks_nobody(tmp_path):
    journal = str(tmp_path / "j")
    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        parked = await pay(bank, journal)
        await pay(bank, journal, answers=[Answer(parked.pending[0].id, {"cents": 5})])
        async with open_mcp("bank", url=bank.url) as tools:
            again = await replay("r1", agent_with(tools), journal=journal)
    assert again.same and len(bank.calls) == 2


async def test_a_call_refused_until_the_user_has_opened_a_link_is_made_again(tmp_path):
    journal = str(tmp_path / "j")
    needed = {
        "mode": "url",
        "message": "Sign in.",
        "url": "https://bank.example",
        "elicitationId": "e",
    }
    error = {"code": -32042, "message": "sign in first", "data": {"elicitations": [needed]}}
    async with serving(Modern({"error": error}, text("paid"))) as bank:
        (question,) = (await pay(bank, journal)).pending
        assert "https://bank.example" in question.question
        done = await pay(bank, journal, answers=[Answer(question.id, "accept")])
    assert done.tool_records[0].outcome.output == {"result": "paid"}
    assert bank.responses == [None, None]


# -- models and roots


def agent_of_three(tools):
    model = ScriptedModel([CALL, "Hi there.", "Done."])
    return Agent("clerk", model=model, tools=[tools])


async def test_a_server_gets_a_reply_of_the_run_s_model_which_is_logged(tmp_path):
    asked = asks({"m": sample("Say hi.", systemPrompt="Be brief.")})
    async with (
        serving(Modern(asked, text("ok"))) as bank,
        open_mcp("bank", url=bank.url, sampling=True) as tools,
        start(agent_of_three(tools), "Pay.", journal=str(tmp_path / "j")) as live,
    ):
        purposes = [event.purpose async for event in live if isinstance(event, ModelStarted)]
        result = await live.result()
    assert result.content == "Done."
    assert purposes == ["", "sampling", ""]
    assert result.usage.api_calls == 3
    reply = bank.responses[1]["m"]
    assert reply["content"]["text"] == "Hi there." and reply["role"] == "assistant"


async def test_a_reply_to_a_server_counts_in_the_budget():
    usage = Usage(input_tokens=50, output_tokens=50)
    replies = [
        ModelResponse(tool_calls=[CALL], usage=usage),
        ModelResponse(content="Hi.", usage=usage),
    ]
    async with (
        serving(Modern(asks({"m": sample()}))) as bank,
        open_mcp("bank", url=bank.url, sampling=True) as tools,
    ):
        agent = Agent("clerk", model=ScriptedModel([*replies, "Hi.", "Done."]), tools=[tools])
        result = await run(agent, "Pay.", budget=Budget(max_tokens=150))
    # The server asks for a second reply, which the run cannot pay for.
    assert len(bank.calls) == 2
    assert "The budget of 150 tokens is spent" in result.tool_records[0].outcome.error
    assert result.error.code == "budget_exceeded" and result.usage.total_tokens == 200


async def test_a_function_may_reply_to_a_server():
    async def reply(request):
        return f"{request.system}: {request.messages[0].text}"

    asked = asks({"m": sample("Say hi.", systemPrompt="Be brief.")})
    async with serving(Modern(asked, text("ok"))) as bank:
        await pay(bank, None, sampling=reply)
    assert bank.responses[1]["m"]["content"]["text"] == "Be brief.: Say hi."


@pytest.mark.parametrize(
    ("asked", "options", "said"),
    [
        (sample(), {}, r"open_mcp(sampling=True) allows it"),
        (
            sample(tools=[{"name": "x", "inputSchema": {"type": "object"}}]),
            {"sampling": True},
            "tools",
        ),
        ({"method": "roots/list"}, {}, "open_mcp(roots=) names them"),
    ],
    ids=["sampling", "tools", "roots"],
)
async def test_what_a_server_does_not_get_is_said(asked, options, said):
    async with serving(Modern(asks({"m": asked}), text("ok"))) as bank:
        result = await pay(bank, None, **options)
    assert said in result.tool_records[0].outcome.error
    assert len(bank.calls) == 1


async def test_a_server_is_told_its_folders(tmp_path):
    async with serving(Modern(asks({"r": {"method": "roots/list"}}), text("ok"))) as bank:
        await pay(bank, None, roots=[tmp_path])
    roots = bank.responses[1]["r"]["roots"]
    assert roots == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]


# -- servers of older versions, which wait for the answer


@pytest.fixture(params=[[], ["tasks"]], ids=["call", "task"])
def small(request):
    """A server that asks during a call, which may be a task of version 2025-11-25."""
    return [sys.executable, str(Path(__file__).parent / "server.py"), "asks", *request.param]


async def ask_small(command, log, name, *, journal=None, answers=None, **options):
    options = {"command": command, "env": {"MCP_LOG": str(log)}, "trusted": True, **options}
    async with open_mcp("s", **options) as tools:
        model = ScriptedModel([ToolCall("c1", f"s_{name}", {}), "Done."])
        agent = Agent("a", model=model, tools=[tools])
        if answers is None:
            return await run(agent, Request("Go.", run_id="r"), journal=journal)
        return await resume("r", agent, journal=journal, answers=answers)


async def test_a_waiting_server_is_answered_by_a_function(tmp_path, small):
    elicit = lambda question: {"name": "Ann"}  # noqa: E731
    result = await ask_small(small, tmp_path / "log", "greet", elicit=elicit)
    (record,) = result.tool_records
    assert record.outcome.output == {"result": '{"action": "accept", "content": {"name": "Ann"}}'}


async def test_a_waiting_server_s_question_about_a_write_is_cancelled_and_never_parks(
    tmp_path, small
):
    result = await ask_small(small, tmp_path / "log", "greet", journal=str(tmp_path / "j"))
    assert result.success
    assert result.tool_records[0].outcome.output == {"result": '{"action": "cancel"}'}


async def test_a_read_of_a_waiting_server_parks_and_is_made_again(tmp_path, small):
    journal = str(tmp_path / "j")
    parked = await ask_small(small, tmp_path / "log", "quiz", journal=journal)
    (question,) = parked.pending
    assert question.question == "The MCP server s asks: Who are you?"
    answers = [Answer(question.id, {"name": "Ann"})]
    done = await ask_small(small, tmp_path / "log", "quiz", journal=journal, answers=answers)
    assert done.tool_records[0].outcome.output == {
        "result": '{"action": "accept", "content": {"name": "Ann"}}'
    }
    log = (tmp_path / "log").read_text().split()
    assert log.count("quiz") == 2
    assert log.count("task-cancelled") == ("tasks" in small)


async def test_a_question_that_may_be_about_another_run_is_asked_of_nobody():
    class Log:
        is_in_run = True

        def __init__(self, run_id):
            self.run_id = run_id

    requests = ServerRequests("s", Abilities(sampling=True))
    requests.calls += [OpenCall(Log("r1"), may_repeat=True), OpenCall(Log("r2"))]
    params = ElicitRequestFormParams(message="Who?", requested_schema=FORM)
    assert (await requests.elicit_live(None, params)).action == "cancel"
    said = {"role": "user", "content": {"type": "text", "text": "hi"}}
    wanted = CreateMessageRequestParams.model_validate({"messages": [said], "maxTokens": 5})
    assert "only runs have one" in (await requests.sample_live(None, wanted)).message


async def test_a_question_about_a_task_is_asked_of_its_run():
    class Log:
        def __init__(self, run_id):
            self.run_id = run_id

        def id_of(self, name):
            return name

        async def ask_live(self, question):
            return True, {"cents": 5, "note": self.run_id}

    requests = ServerRequests("s", Abilities())
    requests.calls += [OpenCall(Log("r1"), task_id="t1"), OpenCall(Log("r2"), task_id="t2")]
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
    params = ElicitRequestFormParams(message="Who?", requested_schema=FORM, _meta=related)
    answer = await requests.elicit_live(None, params)
    assert answer.content == {"cents": 5, "note": "r1"}


# -- kill -9

PROGRAM = """
import asyncio, sys
from upshot import *

async def wait(question):
    print("asked", flush=True)
    await asyncio.Event().wait()

async def main(url, journal, how):
    call = ToolCall("c1", "bank_pay", {"to": "eve"})
    elicit = wait if how == "wait" else None
    async with open_mcp("bank", url=url, elicit=elicit) as bank:
        agent = Agent("clerk", model=ScriptedModel([call, "Done."]), tools=[bank])
        if how == "wait":
            await run(agent, Request("Pay eve.", run_id="r1"), journal=journal)
        else:
            answers = [Answer(how, {"cents": 5})]
            await resume("r1", agent, journal=journal, answers=answers)

asyncio.run(main(*sys.argv[1:]))
"""


async def killed(server, journal, how, *, when):
    """Start the program, and kill it once *when* is done."""
    words = ("-c", PROGRAM, server.url, journal, how)
    process = await asyncio.to_thread(start_python, *words, stdout=PIPE, text=True)
    try:
        await when(process)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
    finally:
        process.kill()
        process.stdout.close()


async def test_a_process_killed_while_it_asks_leaves_a_call_that_goes_on(tmp_path):
    journal = str(tmp_path / "runs.db")

    async def has_asked(process):
        assert (await asyncio.to_thread(process.stdout.readline)).strip() == "asked"

    async with serving(Modern(asks({"k": form()}), text("paid"))) as bank:
        await killed(bank, journal, "wait", when=has_asked)
        # The question was never logged: it is asked now, and the call is not made again for it.
        parked = await pay(bank, journal, answers=[])
        assert len(bank.calls) == 1
        done = await pay(bank, journal, answers=[Answer(parked.pending[0].id, {"cents": 5})])
    assert done.success
    assert [one.get("requestState") for one in bank.calls] == [None, "s1"]


async def test_a_call_cut_off_after_its_answers_were_sent_is_never_repeated(tmp_path):
    journal = str(tmp_path / "runs.db")
    async with serving(Modern(asks({"k": form()}), "hang")) as bank:
        parked = await pay(bank, journal)

        async def is_hung(process):
            await bank.hung.wait()

        await killed(bank, journal, parked.pending[0].id, when=is_hung)
        result = await pay(bank, journal, answers=[])
    assert len(bank.calls) == 2
    assert [one.state for one in result.effects] == [Effect.UNKNOWN]
