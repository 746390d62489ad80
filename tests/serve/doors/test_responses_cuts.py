"""What a reader of a response has who was cut off in an open text, and came back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.searching import examples
from upshot.serve.doors.responses import Fold


class _Reply(NamedTuple):
    """A reply as its pieces, what is logged while it is open, and whether it is asked anew."""

    pieces: tuple[str, ...]
    aside: int | None
    again: tuple[str, ...] | None


_PIECES = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4).map(tuple)
_REPLIES = st.lists(
    st.builds(_Reply, _PIECES, st.none() | st.integers(0, 3), st.none() | _PIECES),
    min_size=1,
    max_size=3,
)


def _log_of(replies: Sequence[_Reply]) -> list[dict[str, Any]]:
    """The public events of a run that is watched from the beginning."""
    found: list[dict[str, Any]] = []
    seq = 1

    def add(place: str, **event: Any) -> None:
        found.append({**event, "cursor": f"run-1/{place}"})

    for pieces, aside, again in replies:
        part = 0
        for number, piece in enumerate(pieces):
            if number == aside:
                # An event that is not shown makes the pieces before it void for who comes later.
                seq, part = seq + 1, 0
            part += 1
            add(f"{seq}.{part}", kind="text", text=piece)
        if again is not None:
            seq += 1
            add(str(seq), kind="reset")
            for number, piece in enumerate(again, 1):
                add(f"{seq}.{number}", kind="text", text=piece)
        seq += 1
        add(str(seq), kind="message", text="".join(pieces if again is None else again))
    add(str(seq + 1), kind="end", status="completed")
    return found


def _seq_of(event: dict[str, Any]) -> int:
    return int(event["cursor"].partition("/")[2].partition(".")[0])


def _later(log: Sequence[dict[str, Any]], now: int) -> list[dict[str, Any]]:
    """The same for who begins to watch when *now* of it were there.

    Pieces that are void are gone, and the others come as one.
    """
    last = max((_seq_of(one) for one in log[:now]), default=0)
    known = [one for one in log[:now] if one["kind"] != "text"]
    pieces = [one for one in log[:now] if one["kind"] == "text" and _seq_of(one) == last]
    text = "".join(one["text"] for one in pieces)
    return [*known, *({**one, "text": text} for one in pieces[-1:]), *log[now:]]


def _told(log: Sequence[dict[str, Any]], after: int) -> list[dict[str, Any]]:
    fold = Fold("run-1", after)
    return [
        {**told, "sequence_number": number}
        for event in log
        for number, told in fold.add(event)
        if number > after
    ]


def _check(events: Sequence[dict[str, Any]], replies: Sequence[_Reply], missed: int = -1) -> None:
    """Each message has its head once, no other text than its own, and all of it at its end."""
    numbers = [one["sequence_number"] for one in events]
    assert numbers == sorted(set(numbers))
    for index, reply in enumerate(replies):
        mine = [one for one in events if one["output_index"] == index]
        kinds = [one["type"] for one in mine if not one["type"].endswith("delta")]
        assert kinds == [f"response.{word}" for word in _HEAD]
        first = "".join(reply.pieces)
        whole = first if reply.again is None else "".join(reply.again)
        shown = "".join(one["delta"] for one in mine if one["type"].endswith("delta"))
        assert next(one["text"] for one in mine if one["type"].endswith("text.done")) == whole
        if reply.again is not None or index == missed:
            assert whole.startswith(shown) or _is_within(shown, first)
        elif reply.aside is None:
            assert shown == whole
        else:
            # What was logged meanwhile may keep a part from who comes back.
            assert _is_within(shown, whole)


_HEAD = (
    "output_item.added",
    "content_part.added",
    "output_text.done",
    "content_part.done",
    "output_item.done",
)


def _is_within(part: str, whole: str) -> bool:
    letters = iter(whole)
    return all(letter in letters for letter in part)


@examples(300)
@given(_REPLIES, st.data())
def test_a_reader_who_comes_back_is_told_each_thing_once(
    replies: list[_Reply], data: st.DataObject
) -> None:
    log = _log_of(replies)
    seen = _told(log, -1)
    _check(seen, replies)
    had = data.draw(st.integers(1, len(seen)))
    after = seen[had - 1]["sequence_number"]
    # He comes back at some time after what he saw last.
    least = next(place for place in range(len(log) + 1) if len(_told(log[:place], -1)) >= had)
    now = data.draw(st.integers(least, len(log)))
    ended = sum(one["kind"] == "message" for one in log[:least])
    is_missed = sum(one["kind"] == "message" for one in log[:now]) > ended
    later = _told(_later(log, now), after)
    _check([*seen[:had], *later], replies, ended if is_missed else -1)
