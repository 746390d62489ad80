"""Copies of a run that stand alone: a model call as a command of curl, the run as a test for pytest
with its recorded replies, and the run as a case of a dataset.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from upshot.contract.codec import encode
from upshot.contract.events import Event
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest
from upshot.contract.protocols import Journal
from upshot.errors import Misuse
from upshot.lab.dataset import Case, case_of
from upshot.models.fallback import Fallback
from upshot.models.http_model import HttpDraft, HttpModel
from upshot.models.registry import resolve
from upshot.runs.replay.comparison import facts_of
from upshot.serve import replies
from upshot.serve.permissions import Missing
from upshot.serve.sent_request import offered, spec_of, started_call, tools_of

if TYPE_CHECKING:
    from upshot.contract.agent import Agent

_BEARER = "authorization"
# No line of JSON can be this word.
_END = "UPSHOT"


async def to_curl(events: Sequence[Event], seq: int, agent: Agent[Any] | None) -> replies.Copied:
    """Return the model call that the last event started as a command of curl, without the key.

    Args:
        events: The log up to the event.
        seq: The event.
        agent: The agent as it is today; None if this process has none.

    Raises:
        Missing: The event starts no model call, or its model is not called over HTTP.
    """
    started, spec = started_call(events, seq), spec_of(events)
    model = _http_model(started.model, None if agent is None else agent.model)
    messages = facts_of(events).messages_of(seq)
    known = [one for one in messages if isinstance(one, Message)]
    request = ModelRequest(
        known,
        system=spec.instructions,
        tools=offered(tools_of(agent, started), started),
        output_schema=spec.output_schema,
        settings=spec.settings,
    )
    lost = len(messages) - len(known)
    note = f"{lost} of its messages are not in the log, so they are not in it." if lost else ""
    return replies.Copied(text=_curl_of(await model.draft(request)), note=note)


def _http_model(name: str, own: object) -> HttpModel:
    """Return the model of that name: the agent's own, or the one that its name stands for."""
    options = own.models if isinstance(own, Fallback) else (own,)
    for one in options:
        if isinstance(one, HttpModel) and one.name == name:
            return one
    found = None
    # A script's name is the path of a file.
    if not name.startswith("scripted:"):
        with suppress(Misuse):
            found = resolve(name)
    if not isinstance(found, HttpModel):
        raise Missing(f"the model {name!r} is not called over HTTP, so curl cannot call it")
    return found


def _curl_of(draft: HttpDraft) -> str:
    key = f"${draft.key_variable or 'API_KEY'}"
    value = f"Bearer {key}" if draft.key_header == _BEARER else key
    headers = [shlex.quote(f"{name}: {text}") for name, text in draft.headers.items()]
    # In double quotes, so that the shell puts the key in.
    headers.append(f'"{draft.key_header}: {value}"')
    body = msgspec.json.format(draft.body, indent=2).decode()
    lines = [f"curl {shlex.quote(draft.url)}", *(f"  -H {one}" for one in headers)]
    return " \\\n".join([*lines, f"  --data-binary @- <<'{_END}'"]) + f"\n{body}\n{_END}\n"


async def to_case(run_id: str, journal: Journal) -> replies.Copied:
    """Return a run as a line of a dataset, with the command that writes the same.

    Raises:
        Missing: It has not started.
    """
    case = await _case(run_id, journal)
    command = f"upshot lab collect runs.jsonl --run {shlex.quote(run_id)}"
    return replies.Copied(text=encode(case).decode(), note=command)


async def to_test(
    run_id: str, journal: Journal, agents: Mapping[str, Agent[Any]]
) -> replies.Copied:
    """Return a run as a test that plays its recorded replies; its tools answer from the record.

    Raises:
        Missing: It has not started, or this process does not have its agent.
        Misuse: A test cannot import its agent.
    """
    case = await _case(run_id, journal)
    agent = agents.get(case.agent)
    if agent is None:
        raise Missing(f"this process has no agent {case.agent!r}, so a test cannot import it")
    module, name = _place_of(agent)
    text = json.dumps(json.loads(encode(case)), indent=1)
    # The text is in single quotes, which JSON can do without.
    text = text.replace("'", "\\u0027")
    word = re.sub(r"\W", "_", case.agent)
    lines = [
        f'"""What {case.agent!a} did in run {run_id}: recorded replies, and no effect outside."""',
        "",
        f"from {module} import {name}",
        "from upshot import decode",
        "from upshot.testing import RunnableCase",
        "",
        "",
        f"def test_{word}_does_the_same_again() -> None:",
        "    case = decode(CASE, RunnableCase)",
        f"    trial = case.run_sync({name})",
        f"    assert trial.result.status == {case.status!r}",
        f"    assert trial.result.content == {case.answer!r}",
        "    assert [call.key for call in trial.made] == [call.key for call in case.calls]",
        "",
        "",
        f"CASE = r'''{text}'''",
        "",
    ]
    return replies.Copied(text="\n".join(lines))


def _place_of(agent: Agent[Any]) -> tuple[str, str]:
    """Return the module and the name by which a test can import an agent.

    Raises:
        Misuse: It is not at the top of a module.
    """
    for module, loaded in [*sys.modules.items()]:
        if module == "__main__" or module.startswith("_"):
            continue
        for name, value in [*getattr(loaded, "__dict__", {}).items()]:
            if value is agent and name.isidentifier() and not name.startswith("_"):
                return module, name
    raise Misuse(
        f"a test cannot import the agent {agent.id!r}: put it at the top of a module, as in "
        "desk.py: support = Agent(...)"
    )


async def _case(run_id: str, journal: Journal) -> Case:
    case = await case_of(run_id, journal)
    if case is None:
        raise Missing(f"run {run_id} has not started")
    return case
