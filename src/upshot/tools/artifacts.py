"""Artifacts: a store for large outputs, and the tool that reads them."""

from __future__ import annotations

import functools
import hashlib
import secrets
from dataclasses import dataclass

from upshot.contract.base.enums import Effect
from upshot.contract.base.paging import read_page
from upshot.contract.base.structs import JsonObject
from upshot.contract.message import File
from upshot.contract.protocols import ArtifactStore
from upshot.contract.tool_calls import (
    TOOL_MESSAGE_MAX_CHARS,
    ToolExecutionResult,
    outcome_to_model_content,
)
from upshot.tools.definition.body import FunctionBody
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError

READER_NAME = "read_artifact"
# A page must itself fit into a message.
_MAX_PAGE_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class _Stored:
    run_id: str
    text: str


class InMemoryArtifacts:
    """An artifact store that lives as long as the object.

    Args:
        max_bytes: How much it stores in total before it refuses more; 500 MB by default.
    """

    def __init__(self, *, max_bytes: int = 500_000_000) -> None:
        self._left_bytes = max_bytes
        self._stored: dict[str, _Stored] = {}

    def __repr__(self) -> str:
        return f"InMemoryArtifacts({len(self._stored)} stored)"

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        """Store *data*; see ``ArtifactStore``.

        Raises:
            OSError: The store is full.
        """
        if len(data) > self._left_bytes:
            raise OSError(f"the store in memory has room for {self._left_bytes} more bytes")
        self._left_bytes -= len(data)
        text = data.decode("utf-8", "replace")
        id = f"art-{secrets.token_hex(8)}"
        self._stored[id] = _Stored(run_id, text)
        return File(
            id=id,
            media_type=media_type,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            lines=len(text.splitlines()),
        )

    async def read(
        self,
        id: str,
        *,
        run_id: str,
        offset: int = 0,
        limit: int | None = None,
        pattern: str | None = None,
    ) -> JsonObject:
        """Read a page; see ``ArtifactStore``.

        Raises:
            KeyError: This run has no such artifact.
            ValueError: The offset, limit or pattern is invalid.
        """
        stored = self._stored.get(id)
        if stored is None or stored.run_id != run_id:
            raise KeyError(id)
        return read_page(stored.text, offset=offset, limit=limit, pattern=pattern)


def make_reader(store: ArtifactStore, run_id: str) -> Tool:
    """Make the tool ``read_artifact`` for what *run_id* has in *store*."""
    body = _reader_body().bind(_Reader(store, run_id))
    return Tool(READER_NAME, body, effect=Effect.READ, repeatable=True)


class _Reader:
    """Reads the outputs that one run stored."""

    def __init__(self, store: ArtifactStore, run_id: str) -> None:
        self._store = store
        self._run_id = run_id

    async def read_artifact(
        self, id: str, offset: int = 0, limit: int | None = None, pattern: str | None = None
    ) -> JsonObject:
        """Read a large tool output that was stored, by pages or only the lines that hold a text.

        Args:
            id: The artifact_reference of the output.
            offset: Where to begin, in characters; go on with next_offset.
            limit: How many characters at most, up to 10000.
            pattern: Text to look for, in upper or lower case; * stands for any characters. Only
                lines that hold it are given.
        """
        limit = _MAX_PAGE_CHARS if limit is None else min(limit, _MAX_PAGE_CHARS)
        try:
            while True:
                page = await self._store.read(
                    id, run_id=self._run_id, offset=offset, limit=limit, pattern=pattern
                )
                result = ToolExecutionResult("", READER_NAME, output=page)
                length = len(outcome_to_model_content(result))
                if length <= TOOL_MESSAGE_MAX_CHARS or limit == 1:
                    return page
                # Escapes make a text longer, and some parts of it more than others.
                limit = max(1, limit * TOOL_MESSAGE_MAX_CHARS // length * 9 // 10)
        except KeyError:
            # The same for an id of another run, so that ids cannot be guessed.
            raise ToolError(f"there is no artifact {id!r} in this run", code="not_found") from None
        except ValueError as error:
            raise ToolError(str(error), code="invalid_request") from error


@functools.cache
def _reader_body() -> FunctionBody:
    """The same for every run; reading it each time would dominate the cost of a short run."""
    return FunctionBody(_Reader.read_artifact, READER_NAME)
