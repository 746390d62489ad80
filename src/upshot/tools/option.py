"""Options of a tool: what each takes, told where it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from ..contract import Effect
from ..contract.number import is_amount, is_whole
from ..errors import Misuse

__all__ = ["check_known", "check_options", "read_resources", "to_effect"]

# Some providers take no dots; what is sent to those is settled where it is sent.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DECLARABLE = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)
_FLAGS = ("idempotent", "repeatable", "network", "repair")
_ANSWERS = ("approval", "retry_on_timeout")
_TEXTS = ("about", "error_key")
_NUMBERS = ("timeout_s", "min_useful_s", "approval_expires_s")
_COUNTS = {"retries": 0, "concurrency": 1}
_OPTIONAL = ("timeout_s", "approval_expires_s", "concurrency")
# Words of other libraries, and fields that are set otherwise.
_SYNONYMS = {"about": "description", "timeout": "timeout_s", "doc": "description"}


def check_known(options: Iterable[str], known: Iterable[str]) -> None:
    """Check that there are such options.

    Raises:
        Misuse: There is no such option; the message names what looks like it.
    """
    names = list(known)
    for option in options:
        if option in names:
            continue
        from .fault import nearest

        near = [_SYNONYMS[option]] if option in _SYNONYMS else nearest(option, names)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise Misuse(f"@tool has no option {option!r}{hint}")


def check_options(fields: Mapping[str, object]) -> None:
    """Check what was declared of a tool.

    Args:
        fields: Its fields by name.

    Raises:
        Misuse: Something is not of its type, or out of its range.
    """
    name = fields["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Misuse(
            f"{name!r:.100} cannot be the name of a tool: give name= with 1 to 64 of "
            "a-z, A-Z, 0-9, _, - and dots"
        )
    for field in _FLAGS:
        _check(fields, field, isinstance(fields[field], bool), "True or False")
    for field in _ANSWERS:
        _check(fields, field, isinstance(fields[field], bool | None), "True, False or None")
    for field in _TEXTS:
        _check(fields, field, isinstance(fields[field], str | None), "a text or None")
    for field in _NUMBERS:
        _check_number(fields, field)
    for field, least in _COUNTS.items():
        _check_count(fields, field, least)
    verify = fields["verify"]
    _check(fields, "verify", verify is None or callable(verify), "a function or None")
    _check(fields, "trust", fields["trust"] in ("", "untrusted"), '"untrusted" or ""')
    _check(fields, "block_scope", fields["block_scope"] in ("tool", "key"), '"tool" or "key"')
    _check_structs(fields)


def read_resources(
    name: str, resources: object
) -> tuple[str, ...] | Callable[..., Iterable[str]] | None:
    """*resources* as a tool keeps them: what can be read only once is read now.

    Raises:
        Misuse: They are no names, and no function that gives them.
    """
    if resources is None or callable(resources):
        return cast("Callable[..., Iterable[str]] | None", resources)
    wrong = Misuse(
        f"tool {name!r}: resources is {resources!r:.100}; give a list of names, or a function of "
        "the arguments"
    )
    if isinstance(resources, str | bytes | Mapping) or not isinstance(resources, Iterable):
        raise wrong
    names = tuple(cast("Iterable[object]", resources))
    if not all(isinstance(one, str) for one in names):
        raise wrong
    return cast("tuple[str, ...]", names)


def to_effect(name: str, word: object) -> Effect:
    """The effect that a tool declares.

    Raises:
        Misuse: It is none that can be declared.
    """
    if not isinstance(word, str) or word not in _DECLARABLE:
        raise Misuse(f"tool {name!r}: effect is {word!r}; give read, write or destructive")
    return Effect(word)


def _check(fields: Mapping[str, object], field: str, right: object, wanted: str) -> None:
    if not right:
        told = "description" if field == "about" else field
        value = repr(fields[field])[:100]
        raise Misuse(f"tool {fields['name']!r}: {told} is {value}; give {wanted}")


def _check_number(fields: Mapping[str, object], field: str) -> None:
    value = fields[field]
    if value is None and field in _OPTIONAL:
        return
    _check(fields, field, is_amount(value), "at least 0, in seconds")


def _check_count(fields: Mapping[str, object], field: str, least: int) -> None:
    value = fields[field]
    if value is None and field in _OPTIONAL:
        return
    _check(fields, field, is_whole(value, least), f"at least {least}, a whole number")


def _check_structs(fields: Mapping[str, object]) -> None:
    # Loaded only where somebody uses them.
    rate, circuit, limits = fields["rate"], fields["circuit"], fields["limits"]
    if rate is not None or circuit is not None:
        from .rate import Circuit, Rate

        _check(fields, "rate", isinstance(rate, Rate | None), "a Rate or None")
        _check(fields, "circuit", isinstance(circuit, Circuit | None), "a Circuit or None")
    if limits is not None:
        from .isolation import ProcessLimits

        _check(fields, "limits", isinstance(limits, ProcessLimits), "ProcessLimits or None")
        if fields["isolation"] is None:
            raise Misuse(f"tool {fields['name']!r}: limits are kept only with isolation='process'")
