"""Finds where older messages can be cut off so that the rest is still a valid conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from upshot.contract.base.enums import Role
from upshot.contract.base.json_values import to_json
from upshot.contract.message import CUT, Data, Message, Part, Reasoning, Text
from upshot.contract.run_control import Compacted
from upshot.contract.tool_calls import ToolCall
from upshot.state.run_state import RunState


def find_cut(
    messages: Sequence[Message],
    *,
    seeded: int,
    request: Message,
    keep_last: int,
    past: Compacted | None = None,
) -> Compacted | None:
    """Return the latest cut that keeps the last messages; None if it would replace nothing new.

    Args:
        messages: The messages of the main channel.
        seeded: How many of them the engine started with.
        request: The request of the run.
        keep_last: The minimum number of last messages to keep.
        past: The previous cut; None for the first.
    """
    limit, known = len(messages) - keep_last, 0 if past is None else past.end
    if limit <= known:
        return None
    asked = _request_places(messages, seeded, request)
    end, is_inside = 0, False
    for place in _whole_before(messages, limit):
        if _is_said_by_user(messages, place) and place < seeded:
            end, is_inside = place, False
        elif messages[place].role is Role.ASSISTANT and place > seeded and asked:
            end, is_inside = place, True
    if end <= known:
        return None
    kept = {place for place in range(end) if messages[place].role is Role.SYSTEM}
    kept = sorted(kept.union(asked) if is_inside else kept)
    # Messages kept by the previous cut are sent in any case.
    if all(place in kept for place in range(known, end)):
        return None
    return Compacted(end=end, kept=tuple(kept))


def replaced(messages: Sequence[Message], cut: Compacted, past: Compacted | None) -> list[Message]:
    """Return the messages that *cut* replaces, with the summary of the previous cut first."""
    known = 0 if past is None else past.end
    earlier = () if past is None or past.summary is None else (past.summary,)
    kept = frozenset(cut.kept)
    left = () if past is None else (messages[place] for place in past.kept if place not in kept)
    return [*earlier, *left, *(messages[at] for at in range(known, cut.end) if at not in kept)]


def _whole_before(messages: Sequence[Message], limit: int) -> Iterator[int]:
    """Yield the places up to *limit* where no call lacks its outcome and no reply its end."""
    waiting = Counter[str]()
    for place, message in enumerate(messages[: limit + 1]):
        before = messages[place - 1] if place else None
        if not waiting and (before is None or not (before.paused or before.metadata.get(CUT))):
            yield place
        waiting.update(call.id for call in message.tool_calls)
        if message.role is Role.TOOL:
            id = message.tool_call_id or next(iter(waiting), "")
            waiting -= Counter([id])


def _is_said_by_user(messages: Sequence[Message], place: int) -> bool:
    """Whether a user's message starts there; messages right before the request belong to it."""
    is_user = messages[place].role is Role.USER
    return is_user and not (place and messages[place - 1].role is Role.USER)


def _request_places(messages: Sequence[Message], seeded: int, request: Message) -> list[int]:
    """Return the places of the request and of the user messages after it or right before it."""
    places = [place for place in range(seeded) if messages[place].role is Role.USER]
    if not places:
        return []
    first = next((place for place in reversed(places) if messages[place] == request), places[-1])
    while first and messages[first - 1].role is Role.USER:
        first -= 1
    return [place for place in places if place >= first]


def tokens_sent(state: RunState) -> int | None:
    """Return the input tokens of the engine's last model call, as its provider counted them.

    None if the messages were compacted since, or the provider gave no count.
    """
    compacted = state.board.compacted
    for turn, reply in reversed(state.replies.items()):
        if compacted is not None and turn <= compacted.turn:
            return None
        if not state.models[turn].step and reply.success:
            return reply.usage.input_tokens
    return None


def transcript_of(messages: Sequence[Message]) -> str:
    """Return *messages* as a text, for a model that must sum them up."""
    return "\n\n".join(_to_line(message) for message in messages)


def _to_line(message: Message) -> str:
    who = f"{message.role} {message.name}" if message.name else str(message.role)
    return f"{who}: " + "\n".join(filter(None, map(_to_text, message.parts)))


def _to_text(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case ToolCall():
            return f"calls {part.name} with {to_json(part.arguments).decode()}"
        case Data():
            return to_json(part.data).decode()
        case Reasoning():
            return ""
        case _:
            return f"[{getattr(part, 'kind', '')}]"
