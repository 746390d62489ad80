"""Secrets: registered strings that must not show up anywhere but in the tool itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import msgspec

from ..contract import Json, clean_text
from ..errors import Misuse

__all__ = ["MASK", "Secrets"]

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

    Attributes:
        masked: How many places were masked so far.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        forms: set[str] = set()
        for text in (None,) if isinstance(texts, str) else texts:
            if not isinstance(text, str):
                raise Misuse("secrets are a list of strings: secrets=[...]")
            # In JSON text a secret may stand escaped.
            clean = clean_text(text)
            forms |= {text, clean, msgspec.json.encode(clean).decode()[1:-1]}
        longest_first = sorted((form for form in forms if form), key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )
        self.masked = 0

    def __bool__(self) -> bool:
        return self._pattern is not None

    def mask_text(self, text: str) -> str:
        """*text* with every secret replaced by ``MASK``."""
        if self._pattern is None:
            return text
        text, count = self._pattern.subn(MASK, text)
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
        if isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.mask_text(text := repr(value))
            return value if masked == text else masked
        return value

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
