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
    """Something was asked of a block that was not entered.

    It is an AttributeError too, so that ``hasattr`` and ``getattr`` with a default work.
    """


class Block(AbstractAsyncContextManager[T_co]):
    """An async context manager; every other use of it is misuse that shows the right one.

    Args:
        manager: What it enters.
        call: How it was made, such as "upshot.start(...)".
        name: What the thing in it is usually called.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T_co], *, call: str, name: str) -> None:
        self._manager = manager
        self._call = call
        self._name = name
        self._is_entered = False

    async def __aenter__(self) -> T_co:
        if self._is_entered:
            raise Misuse(f"it was entered already: make another by {self._call}")
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
            # Asked by Python itself, and by tools that look at any object.
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.refuse()

    # Python looks these up before it calls any of them, so they have to be there.

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
    """What makes a function of a generator that yields once give a Block.

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
