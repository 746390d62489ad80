"""Names that are loaded at their first use, so that importing a package costs next to nothing."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import SimpleNamespace
from typing import Any

# What a package gets from one above it: the only arrows that go up.
_ABOVE = {"Site": "upshot.serve.site"}

# Two threads that import two packages must not restore each other's hook.
_hooked: RLock = RLock()


@contextmanager
def lazy_imports(namespace: dict[str, object]) -> Generator[None]:
    """Make the imports of a ``with`` block lazy, and export the imported names.

    The block contains only ``from module import name as name``, which type checkers read normally.
    Nothing is imported here: ``__import__`` records the module of each name, for this package only.
    Later the package loads a name at its first use.

    Args:
        namespace: The package's ``globals()``. It gets ``__all__``, sorted, ``__dir__`` and
            ``__getattr__``, which raises AttributeError for an unknown name; a loaded name is
            stored there.
    """
    home_of: dict[str, str] = {}
    with _hooked:
        load = builtins.__import__

        def note(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] = (),
            level: int = 0,
        ) -> object:
            if globals is not namespace:
                return load(name, globals, locals, fromlist, level)
            home_of.update(dict.fromkeys(fromlist, name))
            return SimpleNamespace(**dict.fromkeys(fromlist))

        builtins.__import__ = note
        try:
            yield
        finally:
            builtins.__import__ = load
    for name in home_of:
        del namespace[name]

    def load_name(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            # With a name but no object, since an interpreter that guesses too would suggest twice.
            raise AttributeError(
                _missing_message(str(namespace["__name__"]), name, home_of), name=name
            )
        value: object = getattr(import_module(home), name)
        namespace[name] = value
        return value

    names = sorted(home_of)
    namespace.update(__all__=names, __dir__=lambda: names, __getattr__=load_name)


def load_above(name: str) -> Any:
    """Return an object of a higher package, one of ``_ABOVE``, which may need an extra.

    Raises:
        ModuleNotFoundError: A package of the extra is not installed.
    """
    return getattr(import_module(_ABOVE[name]), name)


def _missing_message(package: str, name: str, known: Iterable[str]) -> str:
    text = f"module {package!r} has no attribute {name!r}"
    # Programs look up names with underscores only to test whether they exist.
    if name.startswith("_"):
        return text
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"{text}: did you mean {near[0]!r}?" if near else text
