"""The text in a run's log, as a search sees it: what was asked, arguments, outputs, answers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import msgspec

from upshot.contract.base.secrets import hide_all_marks
from upshot.contract.codec import encode
from upshot.contract.events import Event
from upshot.contract.protocols import Journal


async def has_text(run_id: str, wanted: str, journal: Journal) -> bool:
    """Whether a text of a run's log contains *wanted*, which is normalised."""
    is_escaped = msgspec.json.encode(wanted).decode() != f'"{wanted}"'
    async for event in journal.events(run_id):
        body = _body_of(event)
        # Arguments may be JSON in JSON, with its letters escaped.
        if ("\\u" in body or is_escaped or wanted in normal(body)) and any(
            wanted in normal(one) for one in _texts(msgspec.json.decode(body))
        ):
            return True
    return False


def texts_of(event: Event) -> Iterator[str]:
    """Yield the normalised texts and numbers of an event; masked ones stay masked."""
    return map(normal, _texts(msgspec.json.decode(_body_of(event))))


def normal(text: str) -> str:
    """Return *text* normalised, so that case and the encoding of accents do not matter."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _body_of(event: Event) -> str:
    return hide_all_marks(encode(event).decode())


def _texts(value: object) -> Iterator[str]:
    """Yield the texts and numbers in JSON, but no names of fields."""
    left = [value]
    while left:
        value = left.pop()
        match value:
            case str():
                yield value
                if value[:1] in ("{", "["):
                    # What is no JSON, or nested too deeply to be read, is a text only.
                    with suppress(msgspec.DecodeError, RecursionError):
                        left.append(msgspec.json.decode(value))
            case dict():
                # The kind of a value says nothing that a person wrote.
                named = cast("dict[str, object]", value).items()
                left.extend(one for name, one in named if name != "kind")
            case list():
                left.extend(cast("list[object]", value))
            case int() | float() if not isinstance(value, bool):
                yield str(value)
            case _:
                pass
