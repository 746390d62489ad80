"""Masks secrets, and marks untrusted content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import msgspec

from upshot.contract.base.enums import Role
from upshot.contract.base.json_values import clean_text
from upshot.contract.base.structs import Json
from upshot.contract.message import Message, Text
from upshot.contract.tool_calls import FENCE_OPENING
from upshot.errors import Misuse

UNTRUSTED = "untrusted"


def is_untrusted(message: Message) -> bool:
    """Whether *message* may hold untrusted content: a tool's, or what the caller marked so."""
    content = message.content
    if message.role is Role.TOOL:
        # Every other tool message is JSON.
        return message.text.startswith(FENCE_OPENING)
    return not isinstance(content, str) and any(
        isinstance(part, Text) and part.trust == UNTRUSTED for part in content
    )


V = TypeVar("V")

MASK = "***"
# Ids and digests are ours or the provider's, and a short secret may be in one by chance.
_PLAIN = frozenset(
    {
        "artifact_id",
        "call_id",
        "digest",
        "id",
        "idempotency_key",
        "kind",
        "name",
        "parent_run_id",
        "run_id",
        "sha256",
        "tool_name",
        "tool_version",
    }
)


class Secrets:
    """Masks registered strings in texts and values.

    Args:
        texts: What is registered.
        mark: What stands in the place of each, from its number and of how many JSON texts within
            one another its place was a part; None puts ``MASK`` everywhere.

    Attributes:
        masked: How many places were masked so far.

    Raises:
        Misuse: *texts* is no list of strings.
    """

    def __init__(
        self, texts: Iterable[str], *, mark: Callable[[int, int], str] | None = None
    ) -> None:
        self._marks: dict[str, str] = {}
        is_list = isinstance(texts, Iterable) and not isinstance(texts, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        for number, text in enumerate(texts if is_list else (None,), 1):
            if not isinstance(text, str):
                raise Misuse("secrets are a list of strings: secrets=[...]")
            for depth, form in _forms(text):
                self._marks.setdefault(form, MASK if mark is None else mark(number, depth))
        longest_first = sorted(filter(None, self._marks), key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )
        self.masked: int = 0

    def __bool__(self) -> bool:
        return self._pattern is not None

    def lifted(self) -> Secrets:
        """What puts the registered strings back where their marks stand."""
        lifting = Secrets(())
        lifting._marks = {mark: form for form, mark in reversed(self._marks.items())}
        if self._pattern is not None:
            lifting._pattern = re.compile("|".join(map(re.escape, lifting._marks)))
        return lifting

    def open_end(self, text: str) -> int:
        """How many characters at the end of *text* may be the beginning of a secret."""
        if self._pattern is None:
            return 0
        # A whole secret is not cut in two for the sake of another that may begin in it.
        whole_to = max((found.end() for found in self._pattern.finditer(text)), default=0)
        longest = max(map(len, self._marks))
        for count in range(min(longest - 1, len(text) - whole_to), 0, -1):
            if any(form.startswith(text[-count:]) for form in self._marks):
                return count
        return 0

    def mask_text(self, text: str) -> str:
        """*text* with every secret replaced by ``MASK``."""
        if self._pattern is None:
            return text
        text, count = self._pattern.subn(lambda found: self._marks[found[0]], text)
        self.masked += count
        return text

    def mask(self, value: V) -> V:
        """*value*, JSON or a struct of the contract, with every secret in it replaced.

        Numbers inside free JSON are texts here, so that a numeric secret is masked too. Ids
        and digests of structs are left as they are.
        """
        if self._pattern is None:
            return value
        return cast("V", self._mask(value))

    def _mask(self, value: object) -> object:
        if type(value) is str:
            return self.mask_text(value)
        if isinstance(value, dict):
            fields = cast("dict[str, Json]", value)
            return {self.mask_text(name): self._mask(item) for name, item in fields.items()}
        if isinstance(value, list | tuple):
            items = [self._mask(item) for item in cast("list[object]", value)]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, msgspec.Struct):
            return self._mask_struct(value)
        if isinstance(value, str):
            return self._mask_word(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.mask_text(text := repr(value))
            return value if masked == text else masked
        return value

    def _mask_word(self, word: str) -> str:
        masked = self.mask_text(str(word))
        try:
            # An open list of words takes a new one.
            return word if masked == word else type(word)(masked)
        except ValueError:
            # Of a closed list the word is ours, and tells nothing.
            return word

    def _mask_struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changes: dict[str, Any] = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if name in _PLAIN or not isinstance(field, str | dict | list | tuple | msgspec.Struct):
                continue
            masked = self._mask(cast("object", field))
            if masked != field:
                changes[name] = masked
        return msgspec.structs.replace(value, **changes) if changes else value


def _forms(text: str) -> Iterator[tuple[int, str]]:
    """*text* as it may stand: as it is, and escaped in JSON text, or in JSON text within that."""
    yield 0, text
    form = clean_text(text)
    for depth in range(3):
        yield depth, form
        form = msgspec.json.encode(form).decode()[1:-1]
