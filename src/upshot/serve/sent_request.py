"""The whole input of one model call, as far as the log and the present agent know it.

The log has the messages, and digests of all parts of a request. Instructions and tools come from
the agent, and the digests say whether they are those that were sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from upshot.contract.agent_spec import AgentSpec
from upshot.contract.events import Event, RunResumed, RunStarted
from upshot.contract.message import MAIN_CHANNEL, Message
from upshot.contract.model_calls import ModelRequest, ModelStarted, RequestDigests
from upshot.contract.tool_calls import ToolSpec
from upshot.entry.planning import known_of
from upshot.runs.replay.comparison import facts_of
from upshot.serve import replies
from upshot.serve.permissions import Missing
from upshot.state.request_digests import RequestDigester
from upshot.state.run_state import RunState

if TYPE_CHECKING:
    from upshot.contract.agent import Agent

# How many of the last messages are returned unless all are asked for.
_MOST_MESSAGES = 60
_PARTS = ("instructions", "tools", "settings")


def sent_request(
    events: Sequence[Event], seq: int, agent: Agent[Any] | None, *, is_whole: bool
) -> replies.SentRequest:
    """Return the input of the model call that the last event started.

    Args:
        events: The log up to the event.
        seq: The event.
        agent: The agent as it is today; None if this process has none.
        is_whole: Whether to return all messages, and not only the last ones.

    Raises:
        Missing: The event starts no model call.
    """
    started = started_call(events, seq)
    before = _call_before(events, started)
    facts = facts_of(events)
    messages = facts.messages_of(seq)
    earlier = [] if before is None else facts.messages_of(before.seq)
    known = {id(one) for one in earlier if one is not None}
    state = RunState()
    for event in events:
        state.add(event)
    cut = state.board.compacted
    if cut is not None and cut.summary is not None and messages[len(cut.kept)] is None:
        # It is not on the board: it stands for the messages that are.
        messages[len(cut.kept)] = cut.summary
    skipped = 0 if is_whole else max(0, len(messages) - _MOST_MESSAGES)
    instructions, tools = spec_of(events).instructions or "", tools_of(agent, started)
    return replies.SentRequest(
        model=started.model,
        purpose=started.purpose,
        instructions=instructions,
        is_instructed=_fits(started, system=instructions or None),
        tools=tuple(
            replies.SentTool(
                name=one.name,
                description=one.description,
                parameters=one.parameters,
                withheld=one.name in started.withheld,
            )
            for one in tools
        ),
        has_tools=_fits(started, tools=offered(tools, started)),
        skipped=skipped,
        messages=tuple(
            replies.SentMessage(message=one, is_new=one is None or id(one) not in known)
            for one in messages[skipped:]
        ),
        hidden=_hidden(state),
        before=0 if before is None else before.seq,
        changed=() if before is None else tuple(_changed(before, started)),
        dropped=_dropped(earlier, messages),
    )


def started_call(events: Sequence[Event], seq: int) -> ModelStarted:
    """Return the last event, which starts a model call.

    Raises:
        Missing: It does not.
    """
    last = events[-1] if events else None
    if not isinstance(last, ModelStarted) or last.seq != seq:
        raise Missing(f"event {seq} is not a model call")
    return last


def spec_of(events: Sequence[Event]) -> AgentSpec:
    """Return the agent of the last session of a log."""
    for event in reversed(events):
        if isinstance(event, RunStarted | RunResumed) and event.agent is not None:
            return event.agent
    return AgentSpec()


def tools_of(agent: Agent[Any] | None, started: ModelStarted) -> tuple[ToolSpec, ...]:
    """Return the tools of an agent as models see them, and those that the call left out."""
    known = () if agent is None else known_of(agent).tools or ()
    specs = tuple(tool.spec for tool in known)
    names = {one.name for one in specs}
    return (*specs, *(ToolSpec(name=name) for name in started.withheld if name not in names))


def offered(tools: Sequence[ToolSpec], started: ModelStarted) -> tuple[ToolSpec, ...]:
    """Return the tools that a call did not leave out."""
    return tuple(one for one in tools if one.name not in started.withheld)


def _fits(started: ModelStarted, **given: Any) -> bool:
    """Whether a part of a request has the digest that the log has of it."""
    logged = started.request
    if logged is None:
        return False
    request = ModelRequest((), **given)
    name = "instructions" if "system" in given else "tools"
    found = (
        getattr(RequestDigester(is_named=named).digests(request, ()), name)
        for named in (False, True)
    )
    return getattr(logged, name) in found


def _call_before(events: Sequence[Event], started: ModelStarted) -> ModelStarted | None:
    """Return the model call before, of the same purpose."""
    for event in reversed(events[:-1]):
        if not isinstance(event, ModelStarted) or event.request is None:
            continue
        if (event.purpose, event.step) == (started.purpose, started.step):
            return event
    return None


def _changed(before: ModelStarted, started: ModelStarted) -> list[str]:
    """Return which parts of a request differ from those of the call before."""
    was, now = before.request or RequestDigests(), started.request or RequestDigests()
    changed = ["model"] if before.model != started.model else []
    return changed + [name for name in _PARTS if getattr(was, name) != getattr(now, name)]


def _dropped(earlier: Sequence[Message | None], now: Sequence[Message | None]) -> int:
    """Return how many messages of the call before are not sent any more."""
    kept = {id(one) for one in now if one is not None}
    return sum(one is not None and id(one) not in kept for one in earlier)


def _hidden(state: RunState) -> tuple[Message, ...]:
    """Return the messages that compaction left out of a request, in order."""
    cut = state.board.compacted
    if cut is None:
        return ()
    messages = state.board.messages(MAIN_CHANNEL)
    kept = set(cut.kept)
    return tuple(messages[at] for at in range(cut.end) if at not in kept)
