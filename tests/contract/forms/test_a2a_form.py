"""The A2A forms of values: what A2A can hold comes back as it was."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contract.strategies import json_objects, messages, parts, results, structs, texts
from upshot import (
    AgentCapabilities,
    AgentCard,
    AgentError,
    AgentResult,
    Artifact,
    Cost,
    Message,
    Misuse,
    Request,
    RequestConfig,
    Skill,
    Status,
    Text,
    from_a2a,
    to_a2a,
)
from upshot.contract import Audio, Data, File, Image, Part, Reasoning, ServerToolBlock, ToolCall

STATES = {
    Status.COMPLETED: "TASK_STATE_COMPLETED",
    Status.INTERRUPTED: "TASK_STATE_CANCELED",
    Status.CANCELED: "TASK_STATE_CANCELED",
    Status.FAILED: "TASK_STATE_FAILED",
    Status.ABORTED: "TASK_STATE_FAILED",
    Status.INPUT_REQUIRED: "TASK_STATE_INPUT_REQUIRED",
}


def ended(status: Status, **facts: Any) -> AgentResult[Any]:
    error = None if status is Status.COMPLETED else AgentError("internal", "It went wrong.")
    return AgentResult(status=status, error=error, run_id="run-1", **facts)


def sent(form: Any) -> Any:
    """A form as it arrives after a way over the wire."""
    return json.loads(json.dumps(form))


def shown(message: Message) -> Message:
    """What A2A can hold of a message: no thoughts, and no metadata under our name.

    Nor what a provider alone can read; and calls stand after all other parts.
    """
    kept = shown_parts(message.parts)
    metadata = {name: said for name, said in message.metadata.items() if name != "upshot"}
    return Message(
        message.role,
        kept,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id or None,
        name=message.name,
        paused=message.paused,
        metadata=metadata,
    )


def shown_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Those that A2A has parts for, without what is for a provider alone."""
    return tuple(
        Text(part.text, trust=part.trust) if isinstance(part, Text) else part
        for part in parts
        if not isinstance(part, Reasoning | ToolCall | ServerToolBlock)
    )


@pytest.mark.parametrize("status", Status)
def test_a_status_has_its_word_and_comes_back(status: Status) -> None:
    assert to_a2a(status)["state"] == STATES[status]
    assert from_a2a(to_a2a(status), Status) is status
    assert from_a2a(to_a2a(ended(status)), AgentResult).status is status


@pytest.mark.parametrize(
    ("state", "status"),
    [("CANCELED", "canceled"), ("REJECTED", "failed"), ("AUTH_REQUIRED", "input_required")],
)
def test_words_of_others_are_read(state: str, status: str) -> None:
    task = {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}
    result = from_a2a(task, AgentResult)
    assert (result.status, result.task_id, result.context_id) == (status, "t", "c")
    assert result.error is not None


@pytest.mark.parametrize(
    "state", ["TASK_STATE_WORKING", "TASK_STATE_SUBMITTED", "completed", None, 7]
)
def test_a_task_that_is_not_over_is_no_result(state: Any) -> None:
    with pytest.raises(Misuse, match="has not ended"):
        from_a2a({"status": {"state": state}}, AgentResult)


def test_a_result_is_a_task() -> None:
    result = ended(
        Status.COMPLETED,
        content="Done.",
        context_id="c",
        messages=[Message("user", "Go on."), Message("tool", "{}"), Message("assistant", "Done.")],
        artifacts=[Artifact("report", (Text("All is well."),))],
    )
    task = to_a2a(result)
    assert (task["id"], task["contextId"]) == ("run-1", "c")
    assert task["status"]["message"]["parts"] == [{"text": "Done."}]  # type: ignore[index, call-overload]
    assert [message["role"] for message in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]  # type: ignore[index, call-overload, union-attr]
    assert task["artifacts"][0]["parts"] == [{"text": "All is well."}]  # type: ignore[index, call-overload]


@given(results())
def test_what_a_task_can_hold_of_a_result_comes_back(result: AgentResult[Any]) -> None:
    back = from_a2a(to_a2a(result), AgentResult)
    for name in ("status", "error", "cost", "run_id", "agent_id", "context_id", "pending"):
        assert getattr(back, name) == getattr(result, name), name
    assert back.ended_at == result.ended_at
    assert (back.content or None) == (result.content or None)
    assert [artifact.name for artifact in back.artifacts] == [a.name for a in result.artifacts]


def test_money_comes_back_to_the_last_digit() -> None:
    cost = Cost(input=Decimal("12638.500622737411"))
    back = from_a2a(sent(to_a2a(ended(Status.COMPLETED, cost=cost))), AgentResult)
    assert back.cost == cost


@given(messages())
def test_a_message_comes_back_without_its_thoughts(message: Message) -> None:
    back = from_a2a(to_a2a(message), Message)
    assert shown(back) == shown(message)


@given(
    messages(), json_objects(), json_objects(), texts(), st.none() | st.lists(texts(), max_size=2)
)
def test_a_request_comes_back(
    message: Message, inputs: Any, metadata: Any, name: str, modes: list[str] | None
) -> None:
    metadata.pop("upshot", None)
    config = None if modes is None else RequestConfig(accepted_output_modes=tuple(modes))
    asked = Request(
        shown(message),
        inputs=inputs,
        metadata=metadata,
        task_id=name,
        context_id=name,
        run_id=name,
        config=config,
    )
    back = from_a2a(sent(to_a2a(asked)), Request)
    assert shown(back.to_message()) == shown(asked.to_message())
    assert replace(back, message=asked.message) == asked


def test_a_request_has_the_words_of_a2a() -> None:
    config = RequestConfig(accepted_output_modes=("text/plain",))
    form = to_a2a(Request("Hi", context_id="c-1", task_id="t-1", config=config))
    assert form["configuration"] == {"acceptedOutputModes": ["text/plain"]}
    message = form["message"]
    assert isinstance(message, dict)
    assert (message["contextId"], message["taskId"], message["role"]) == ("c-1", "t-1", "ROLE_USER")


def test_parameters_without_a_message_are_misuse() -> None:
    with pytest.raises(Misuse, match="have no message"):
        from_a2a({"configuration": {}}, Request)


@given(st.lists(parts(), max_size=3), json_objects())
def test_an_artifact_comes_back(content: list[Any], metadata: Any) -> None:
    metadata.pop("upshot", None)
    artifact = Artifact("report", shown_parts(content), metadata=metadata)
    assert from_a2a(to_a2a(artifact), Artifact) == artifact


@pytest.mark.parametrize("kind", [AgentCard, Skill, AgentCapabilities])
@given(data=st.data())
def test_a_card_comes_back(kind: Any, data: st.DataObject) -> None:
    value = data.draw(structs(kind))
    assert from_a2a(to_a2a(value), kind) == value


def test_a_card_has_the_words_of_a2a() -> None:
    card = AgentCard(name="n", skills=(Skill(id="s", input_modes=("text/plain",)),))
    form = sent(to_a2a(card))
    assert set(form) == {
        *("name", "description", "skills", "capabilities"),
        *("defaultInputModes", "defaultOutputModes"),
    }
    assert form["skills"][0]["inputModes"] == ["text/plain"]
    assert form["capabilities"] == {"streaming": False, "pushNotifications": False}
    assert (
        from_a2a(form | {"url": "https://x", "version": "1", "provider": None}, AgentCard) == card
    )


@pytest.mark.parametrize(
    ("part", "file"),
    [
        (Image(data=b"x", media_type="image/png"), {"mediaType": "image/png", "raw": "eA=="}),
        (Audio(url="https://x/a.wav"), {"url": "https://x/a.wav"}),
        (File(name="a.txt", data=b""), {"filename": "a.txt", "raw": ""}),
        (File(id="art-1", size_bytes=9, summary="s"), {"url": "artifact:art-1"}),
    ],
    ids=["image", "audio", "file", "stored"],
)
def test_files_have_the_form_of_a2a(part: Any, file: Any) -> None:
    form = sent(to_a2a(Artifact("a", (part,))))
    (shown,) = form["parts"]
    assert {name: shown[name] for name in shown if name != "metadata"} == file
    assert from_a2a(form, Artifact).parts == (part,)


def test_parts_of_others_are_read() -> None:
    theirs = [
        {"mediaType": "image/png", "url": "https://x/i.png"},
        {"filename": "r.pdf", "url": "https://x/r.pdf"},
        {"data": {"a": 1}, "metadata": {"mine": 1}},
    ]
    found = from_a2a({"role": "ROLE_AGENT", "parts": theirs}, Message)
    assert found == Message(
        "assistant",
        (
            Image(url="https://x/i.png", media_type="image/png"),
            File(name="r.pdf", url="https://x/r.pdf"),
            Data({"a": 1}),
        ),
    )


def test_nothing_of_the_inside_goes_to_strangers() -> None:
    result = ended(
        Status.COMPLETED, provider_data={"raw_headers": {"k": "secret"}}, state={"s": "secret"}
    )
    assert "secret" not in json.dumps(to_a2a(result))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"role": "ROLE_AGENT"}, Message),
        ({"parts": [7]}, Message),
        ({"parts": [], "metadata": {"upshot": {"role": "king"}}}, Message),
        ({"name": 7}, AgentCard),
        ({}, int),
        ([], Message),
    ],
)
def test_what_is_of_another_form_is_misuse(data: Any, kind: Any) -> None:
    with pytest.raises(Misuse):
        from_a2a(data, kind)


@given(json_objects())
def test_reading_never_raises_anything_else(data: Any) -> None:
    form = {"status": data, "metadata": {"upshot": data}, "parts": [data], "history": [data]}
    for state in ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED"):
        for kind in (Message, Artifact, AgentCard, Skill, AgentResult):
            with contextlib.suppress(Misuse):
                from_a2a({**form, "status": {**data, "state": state}, **data}, kind)


def test_a_value_without_a_form_is_misuse() -> None:
    with pytest.raises(Misuse, match="no form"):
        to_a2a(7)
