"""WatchedStream: a stream of messages that tells when it has ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["WatchedStream", "watch"]

Item_co = TypeVar("Item_co", covariant=True)
Writer = TypeVar("Writer")


class _Stream(Protocol[Item_co]):
    async def receive(self) -> Item_co: ...
    async def aclose(self) -> None: ...


class WatchedStream(Generic[Item_co]):
    """Reads another stream, and tells when that ends.

    The SDK says the same of a request that was never sent and of one that was lost under way;
    who knows of the end before sending can tell them apart.
    """

    def __init__(self, stream: _Stream[Item_co], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> Item_co:
        """The next message; raises as the other stream does, and tells then."""
        try:
            return await self._stream.receive()
        except BaseException:
            self._ended()
            raise

    async def aclose(self) -> None:
        """Close the other stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item_co:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def watch(
    opened: AbstractAsyncContextManager[tuple[_Stream[Item_co], Writer]], ended: Callable[[], None]
) -> AsyncGenerator[tuple[WatchedStream[Item_co], Writer]]:
    """The pair of streams that *opened* gives, the first of them watched."""
    async with opened as (reader, writer):
        yield WatchedStream(reader, ended), writer
