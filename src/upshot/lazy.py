"""Names that are loaded at their first use, so that importing a package costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

__all__ = ["lazy_names", "names_in"]


def lazy_names(
    package: str, namespace: dict[str, object], homes: dict[str, str]
) -> Callable[[str], object]:
    """Make a package's ``__getattr__`` that loads a name from the module it lives in.

    Args:
        package: The package's ``__name__``.
        namespace: Its ``globals()``; a name that was loaded is kept there.
        homes: Names, separated by white space, by the module in the package that has them.

    Returns:
        The function; it raises AttributeError for a name that is nowhere.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            # With a name and no object: an interpreter that guesses too would say it twice.
            raise AttributeError(_missing(package, name, home_of), name=name)
        value: object = getattr(import_module(f".{home}", package), name)
        namespace[name] = value
        return value

    return load


def names_in(homes: dict[str, str]) -> list[str]:
    """All names in *homes*, sorted: what the package exports."""
    return sorted(name for names in homes.values() for name in names.split())


def _missing(package: str, name: str, known: Iterable[str]) -> str:
    said = f"module {package!r} has no attribute {name!r}"
    # Programs look for names with underscores only to see whether they are there.
    if name.startswith("_"):
        return said
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"{said}: did you mean {near[0]!r}?" if near else said
