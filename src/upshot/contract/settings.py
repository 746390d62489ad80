"""How a model is asked, and how often it is asked again."""

from __future__ import annotations

from math import isfinite
from typing import Literal, TypeAlias

import msgspec

from ..errors import Misuse
from .keyword import KeywordMeta
from .value import JsonObject, Value, check_types, freeze, set_field

__all__ = ["ModelSettings", "ReasoningEffort", "Retry"]

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ModelSettings(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """What a model call may be told; None leaves it to the provider.

    Settings of an agent and of a run are merged field by field; the run's win.

    Attributes:
        temperature: Usually from 0 to 2.
        top_p: From 0 to 1.
        max_tokens: The most tokens to generate, reasoning included.
        stop: Texts at which the model stops.
        seed: For providers that can repeat a sample.
        tool_choice: "auto", "none", "required", or the name of one tool.
        parallel_tool_calls: Whether one reply may ask for several calls.
        reasoning: An effort, or the number of tokens to think with; 0 or "none" is off.
        cache: Whether to mark the stable prefix for the provider's prompt cache.
        extra: Fields of the provider's own, put into the request body as they are.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningEffort | int | None = None
    cache: bool | None = None
    extra: JsonObject = {}

    def __post_init__(self) -> None:
        stop: object = self.stop
        if isinstance(stop, str):
            set_field(self, "stop", (stop,))
        freeze(self, "stop")
        check_types(self)
        for name in ("temperature", "top_p"):
            number = getattr(self, name)
            if number is not None and not isfinite(number):
                raise Misuse(f"{name} is {number}: give a number")

    def merge(self, over: ModelSettings | None) -> ModelSettings:
        """These settings with every field that *over* sets; ``extra`` is merged by key."""
        if over is None:
            return self
        changes = {
            name: value
            for name in self.__struct_fields__
            if name != "extra" and (value := getattr(over, name)) is not None
        }
        return msgspec.structs.replace(self, **changes, extra={**self.extra, **over.extra})


class Retry(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """How often and how patiently a failed model call is tried again.

    Only retryable errors are; a provider's Retry-After is a floor, jitter only
    lengthens. A wait longer than ``max_wait_s``, or one that reaches past the
    run's deadline, is not begun: the error is returned with its retry_after_s.

    Attributes:
        max_tries: The most tries of one call, the first included; at least 1.
        max_wait_s: The longest wait between two tries, in seconds.
        base_s: The first wait in seconds; it doubles with every try.
    """

    max_tries: int = 4
    max_wait_s: float = 60
    base_s: float = 0.5

    def __post_init__(self) -> None:
        check_types(self)
        if self.max_tries < 1:
            raise Misuse(
                f"max_tries is {self.max_tries}: give at least 1, or retry=None for no retry"
            )
        # Not below zero, and no NaN either.
        if not (self.max_wait_s >= 0 and self.base_s >= 0):
            raise Misuse("max_wait_s and base_s are seconds: give 0 or more")
