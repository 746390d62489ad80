"""An async context manager that explains a forgotten ``async with``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import NoReturn, ParamSpec, TypeVar

from upshot.errors import Misuse

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class NotEntered(Misuse, AttributeError):
    """A block was used without being entered.

    It is also an AttributeError, so that ``hasattr`` and ``getattr`` with a default work.
    """


class Block(AbstractAsyncContextManager[T_co]):
    """An async context manager; any other use raises ``Misuse`` that shows the right one.

    Args:
        manager: The context manager that it enters.
        call: The call that created it, such as "upshot.start(...)".
        name: The usual variable name for the value inside it.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T_co], *, call: str, name: str) -> None:
        self._manager = manager
        self._call = call
        self._name = name
        self._is_entered = False

    async def __aenter__(self) -> T_co:
        if self._is_entered:
            raise Misuse(f"it was already entered: create another one with {self._call}")
        self._is_entered = True
        return await self._manager.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<{self._call}, to be entered by async with>"

    def refuse(self) -> NoReturn:
        """Say what to do instead.

        Raises:
            NotEntered: Always.
        """
        raise NotEntered(f"enter it: async with {self._call} as {self._name}")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            # Asked by Python itself, and by tools that inspect any object.
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.refuse()

    # Python looks these up before it calls any of them, so they must exist.

    def __aiter__(self) -> NoReturn:
        self.refuse()

    def __await__(self) -> NoReturn:
        self.refuse()

    def __iter__(self) -> NoReturn:
        self.refuse()

    def __enter__(self) -> NoReturn:
        self.refuse()

    def __exit__(self, *_: object) -> NoReturn:
        self.refuse()


def block(
    call: str, name: str
) -> Callable[[Callable[P, AsyncGenerator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Return a decorator that makes a generator which yields once return a Block.

    Args:
        call: As for ``Block``.
        name: As for ``Block``.
    """

    def of(function: Callable[P, AsyncGenerator[T]]) -> Callable[P, Block[T]]:
        manage = asynccontextmanager(function)

        @wraps(function)
        def opening(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
            return Block(manage(*args, **kwargs), call=call, name=name)

        return opening

    return of
