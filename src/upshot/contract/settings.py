"""Settings and limits of a run: model settings, retry, budget, policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from upshot.contract.base.checks import Allowed, check_argument, check_whole
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import (
    ArgumentsMeta,
    CheckedMeta,
    JsonObject,
    KeywordMeta,
    Value,
    check_types,
    freeze,
    set_field,
)
from upshot.contract.usage import to_money
from upshot.errors import Misuse

if TYPE_CHECKING:
    # Only annotations name them, and messages are made of what stands here.
    from upshot.contract.message import Message
    from upshot.contract.protocols import Model


class Budget(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Limits of a run; None means no limit.

    Attributes:
        deadline_s: Seconds from the start until the run fails with timeout.
        working_s: The same, without the time spent waiting for the user.
        max_turns: The most model calls of an engine, and steps of a machine or graph.
        max_tool_calls: The most tool calls in all.
        max_calls_per_tool: The most calls of one tool.
        max_denials: The most denied tool calls; after that every call is denied.
        max_tokens: The most tokens of all model calls, child runs included.
        max_cost_usd: The most money, in US dollars.
        max_depth: How deep child runs may nest; the root run has depth 0.
        tool_timeout_s: Seconds for a tool without a timeout of its own.
        scope: What ``max_cost_usd`` and ``max_tokens`` count: "run" is this run and its child runs,
            "conversation" all runs of its conversation, as the journal has them before each call.
        unpriced: What a cost limit does about a model without a price: "refuse" raises Misuse
            at the start, and ends the run before the call after a reply without its usage;
            "allow" does not count such calls.
    """

    deadline_s: float | None = None
    working_s: float | None = None
    max_turns: int | None = 50
    max_tool_calls: int | None = None
    max_calls_per_tool: int | None = None
    max_denials: int | None = None
    max_tokens: int | None = None
    max_cost_usd: Decimal | None = None
    max_depth: int | None = 8
    tool_timeout_s: float | None = 45
    scope: Literal["run", "conversation"] = "run"
    unpriced: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        if self.max_cost_usd is not None:
            set_field(self, "max_cost_usd", to_money(self.max_cost_usd))
        if self.unpriced not in ("refuse", "allow"):
            raise Misuse(f'unpriced is {self.unpriced!r}: give "refuse" or "allow"')
        if self.scope not in ("run", "conversation"):
            raise Misuse(f'scope is {self.scope!r}: give "run" or "conversation"')
        check_types(self)
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            # Not below zero, and no NaN either.
            if isinstance(limit, int | float | Decimal) and not limit >= 0:
                raise Misuse(f"{name} is {limit}: give 0 or more, or None for no limit")


class Quota(Value, frozen=True, metaclass=CheckedMeta):
    """A cap that all runs of a journal share which are given it; None means no limit.

    A call is begun only if the most that it can use is left, so no cap is passed.

    Attributes:
        name: Names it in the journal and in errors; quotas of one name and scope count together.
        scope: Whose use is counted: that of "all" runs; of one "run" with its child runs and those
            that it hands over to; of one "conversation", "agent" or "tenant".
        attribute: Which attribute of a run names its tenant.
        max_cost_usd: The most money, in US dollars.
        max_tokens: The most tokens, in and out.
        max_runs: The most runs; a run counts with its first model call, and child runs do not.
        per: Where it begins anew: with each "day" or "month", in UTC; None is never.

    Raises:
        Misuse: A field is none of these, or there is no limit.
    """

    name: str
    scope: Literal["all", "run", "conversation", "agent", "tenant"] = "all"
    attribute: str = "tenant"
    max_cost_usd: Decimal | None = None
    max_tokens: int | None = None
    max_runs: int | None = None
    per: Literal["day", "month"] | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            *,
            scope: Literal["all", "run", "conversation", "agent", "tenant"] = "all",
            attribute: str = "tenant",
            max_cost_usd: Decimal | float | str | None = None,
            max_tokens: int | None = None,
            max_runs: int | None = None,
            per: Literal["day", "month"] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.max_cost_usd is not None:
            set_field(self, "max_cost_usd", to_money(self.max_cost_usd))
        check_types(self)
        limits = (self.max_cost_usd, self.max_tokens, self.max_runs)
        if not self.name:
            raise Misuse("a quota needs a name: Quota('desk', max_cost_usd=5, per='day')")
        if all(limit is None for limit in limits):
            raise Misuse(
                f"the quota {self.name!r} has no limit: give max_cost_usd, max_tokens or max_runs"
            )
        for limit in limits:
            if limit is not None and limit < 0:
                raise Misuse(f"the quota {self.name!r} has the limit {limit}: give 0 or more")


_EFFECTS = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)
_NETWORK = ("on", "off")


TaintRule: TypeAlias = Literal["off", "ask", "values"]
"""What untrusted words change; see ``Policy.taint``."""
WordsRule: TypeAlias = Literal["said", "links", "open"]
"""Which words may go out; see ``Policy.words``."""


OnUnknown: TypeAlias = Literal["tell", "ask", "stop"]
"""What a run does when nobody knows whether a call took effect: go on and tell the model, park and
ask, or fail."""


class Policy(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Rules about tools, applied to every call.

    A rule is the name of a tool or a glob of names (``"mail_*"``), the effect that a tool
    declares (``"effect:write"``, or the ``Effect`` itself), or whether it declares the network
    (``"network:on"``, ``"network:off"``).

    Attributes:
        allow: Only tools that match one of these rules may be called; None allows all. The
            Toolbox's own ``read_artifact`` needs no rule.
        deny: Tools that match one of these rules may not be called, even if ``allow`` matches.
        ask: Tools that match one of these rules need approval, whatever they declare:
            ``["effect:write"]`` has every writing call confirmed.
        taint: What needs approval once untrusted words are in the context, whatever the tool
            declares. "ask" (True): calls that may write, and reads that declare the network, for
            either may carry data out. "values": the same calls, unless the user asked for such an
            act and each argument is vouched for, by what the user said or by what ``@tool``
            declares. "off" (False): nothing.
        words: With "values", which ``content`` may go to others than the user: "said" only what
            stands in the user's own words; "links" any words, but addresses, links, numbers and
            accounts only if they were said; "open" all.
        user: What the user is called: addresses, names of accounts.
        hosts: Hosts that network reads may always reach, as an argument ``target(format="url")``
            names them: exact, with a port that is not the usual one.
        network: Whether tools that declare the network may be called.
        approval_expires_s: Seconds after which an unanswered approval expires and must be
            requested again, unless the tool sets its own; None is never.
        on_unknown: What a run does when the effect of a call is unknown after ``verify``, unless
            the tool sets its own: "tell" (the model is told), "ask" (the run parks with a
            ``PendingEffect``), "stop" (it fails with ``effect_unknown``). None is "ask" for tools
            that declare ``destructive``, and "tell" for others.

    Raises:
        Misuse: A rule has none of these forms, or a field has the wrong type.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    taint: TaintRule | bool = "ask"
    network: bool = True
    approval_expires_s: float | None = None
    words: WordsRule = "said"
    user: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    on_unknown: OnUnknown | None = None

    def __post_init__(self) -> None:
        for name in ("user", "hosts"):
            given: object = getattr(self, name)
            set_field(self, name, (given,) if isinstance(given, str) else given)
        freeze(self, "user", "hosts")
        if self.allow is not None:
            set_field(self, "allow", _read_rules("allow", self.allow))
        set_field(self, "deny", _read_rules("deny", self.deny))
        set_field(self, "ask", _read_rules("ask", self.ask))
        if isinstance(self.taint, bool):
            set_field(self, "taint", "ask" if self.taint else "off")
        check_types(
            self, "taint", "network", "approval_expires_s", "words", "user", "hosts", "on_unknown"
        )
        expires_s = self.approval_expires_s
        if expires_s is not None and not expires_s >= 0:
            raise Misuse(f"approval_expires_s is {expires_s}: give seconds, or None for never")

    def refusal(self, tool_name: str, *, effect: Effect, network: bool, own: bool = False) -> str:
        """The reason why a tool may not be called, "" if it may.

        Args:
            tool_name: The tool.
            effect: The effect that it declares; write if it declares none.
            network: Whether it declares the network.
            own: Whether it is the Toolbox's own tool, which ``allow`` need not name.
        """
        if network and not self.network:
            return f"{tool_name} needs the network, which is off"
        if rule := _first(self.deny, tool_name, effect=effect, network=network):
            return f"the policy denies {rule}"
        if self.allow is None or own:
            return ""
        if _first(self.allow, tool_name, effect=effect, network=network):
            return ""
        return f"the policy does not allow {tool_name}"

    def question(self, tool_name: str, *, effect: Effect, network: bool) -> str:
        """The reason why the user is asked about a tool, "" if no rule wants it.

        Args:
            tool_name: The tool, as for ``refusal``.
            effect: The effect that it declares; write if it declares none.
            network: Whether it declares the network.
        """
        rule = _first(self.ask, tool_name, effect=effect, network=network)
        return f"the policy asks about {rule}" if rule else ""


def _first(rules: tuple[str, ...], tool_name: str, *, effect: Effect, network: bool) -> str:
    """The first rule that a tool matches, "" for none."""
    known = (f"effect:{effect}", f"network:{_NETWORK[not network]}")
    for rule in rules:
        # The name of a tool cannot contain a colon.
        if rule in known if ":" in rule else fnmatchcase(tool_name, rule):
            return rule
    return ""


def _read_rules(field: str, rules: object) -> tuple[str, ...]:
    if isinstance(rules, str) or not isinstance(rules, tuple | list | set | frozenset):
        raise Misuse(f'{field} is {rules!r}: give a list of rules, such as ["mail_*"]')
    found: list[str] = []
    for rule in rules:  # pyright: ignore[reportUnknownVariableType]  # callers may be untyped
        found.append(_read_rule(field, rule))  # pyright: ignore[reportUnknownArgumentType]  # the same
    return tuple(found)


def _read_rule(field: str, rule: object) -> str:
    if isinstance(rule, Effect):
        rule = f"effect:{rule}"
    if not isinstance(rule, str) or not rule:
        raise Misuse(f"{field} holds {rule!r}: a rule is a name, a glob, effect:... or network:...")
    known = [f"effect:{word}" for word in _EFFECTS] + [f"network:{word}" for word in _NETWORK]
    if ":" in rule and rule not in known:
        raise Misuse(f"{field} holds the rule {rule!r}: with a colon there are {', '.join(known)}")
    return rule


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ModelSettings(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Settings of a model call; None leaves the choice to the provider.

    Settings of an agent and of a run are merged field by field; the run's win.

    Attributes:
        temperature: Usually from 0 to 2.
        top_p: From 0 to 1.
        max_tokens: The most tokens to generate, reasoning included.
        stop: Texts at which the model stops.
        seed: For providers that can repeat a sample.
        tool_choice: "auto", "none", "required", or the name of one tool.
        parallel_tool_calls: Whether one reply may ask for several calls.
        reasoning: An effort, or the most tokens for thinking; 0 or "none" turns it off.
        cache: Whether to mark the stable prefix for the provider's prompt cache. A request of a
            loop that does not begin with the one before gives the warning ``cache_lost``.
        extra: Provider-specific fields, put into the request body as they are.
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


_MAX_DOUBLINGS = 64
_MAX_WAIT_S = 60.0


class Retry(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """How failed model calls are retried.

    Only retryable errors are retried. A provider's Retry-After is the least wait, and jitter only
    makes it longer. If the wait would exceed ``max_wait_s`` or reach past the run's deadline, there
    is no retry: the error is returned with its retry_after_s. Who goes on with a run counts the
    tries that were made before, and waits for the rest of a wait.

    Attributes:
        max_tries: The most tries of one call, the first included; at least 1.
        max_wait_s: The longest wait between two tries, in seconds; None is 60, and 3,600 in a
            worker, which keeps nothing for a run that waits.
        base_s: The first wait in seconds; it doubles with every try.
    """

    max_tries: int = 4
    max_wait_s: float | None = None
    base_s: float = 0.5

    def __post_init__(self) -> None:
        check_types(self)
        if self.max_tries < 1:
            raise Misuse(
                f"max_tries is {self.max_tries}: give at least 1, or retry=None for no retry"
            )
        # Not below zero, and no NaN either.
        if not (self.most_s >= 0 and self.base_s >= 0):
            raise Misuse("max_wait_s and base_s are seconds: give 0 or more")

    @property
    def most_s(self) -> float:
        """The longest wait outside of a worker, in seconds."""
        return _MAX_WAIT_S if self.max_wait_s is None else self.max_wait_s

    def wait_s(
        self, tries: int, *, floor_s: float | None = None, draw: Callable[[], float]
    ) -> float | None:
        """The wait after *tries* failed tries.

        Args:
            tries: How many tries have failed, at least 1.
            floor_s: The least wait in seconds that the provider asks for; None for none.
            draw: Returns a random number in [0, 1) for the jitter, which is up to half the backoff.

        Returns:
            Seconds, from *floor_s* to ``max_wait_s``; None if *floor_s* is greater, so that
            there is no further try.
        """
        most_s = self.most_s
        # Without a limit on the exponent, the product with a float would overflow.
        backoff_s = min(self.base_s * 2 ** min(tries - 1, _MAX_DOUBLINGS), most_s)
        least_s = max(floor_s or 0.0, 0.0)
        if least_s > most_s:
            return None
        # Jitter only makes it longer: before the floor, the provider would refuse again.
        return min(max(least_s, backoff_s) + draw() * backoff_s / 2, most_s)


def _may_sum_up(value: object) -> bool:
    is_able = callable(value) or callable(getattr(value, "call", None))
    return isinstance(value, str) or (is_able and not isinstance(value, type))


_SUMMARISER = Allowed("'provider:name', a Model, or a function of the messages", fits=_may_sum_up)


@dataclass(frozen=True, kw_only=True)
class Compaction(metaclass=ArgumentsMeta):
    """When and how older messages are replaced in what an agent's model is sent.

    Looked at before each model call of the loop engine. The cut is where a user speaks, or in what
    the run itself has produced where a reply begins: then what was asked is still sent. No call is
    parted from its outcome. A model call that fails with ``context_length`` is made once more after
    older messages were replaced. Where that fails, the run goes on with all of them and has the
    warning ``compaction_failed``; it is tried again only after ``context_length``.

    Attributes:
        at_tokens: From how many input tokens on, at least 1, as the provider counted those of the
            last call; while it has counted none, nothing is replaced.
        keep_last: How many of the last messages are sent as they are, at least 1. More are where
            the cut cannot be there.
        summarise: What replaces the older ones: "provider:name" or a Model, which is asked for a
            summary by a model call of the run; a function, sync or async, that is given them and
            returns a text or a ``Message`` of the user's role; or None, by which they are dropped.

    Raises:
        Misuse: A field is none of these.
    """

    at_tokens: int
    keep_last: int = 20
    summarise: (
        str | Model | Callable[[Sequence[Message]], str | Message | Awaitable[str | Message]] | None
    ) = None

    def __post_init__(self) -> None:
        check_whole("at_tokens", self.at_tokens, least=1)
        check_whole("keep_last", self.keep_last, least=1)
        if self.summarise is not None:
            check_argument("summarise", self.summarise, _SUMMARISER)

    def to_json(self) -> JsonObject:
        """As plain data: a model by its name, and a function left out."""
        named = self.summarise if isinstance(self.summarise, str) else None
        if named is None and self.has_model:
            named = str(getattr(self.summarise, "name", ""))
        return {"at_tokens": self.at_tokens, "keep_last": self.keep_last, "summarise": named}

    @property
    def has_model(self) -> bool:
        """Whether a model makes the summary."""
        return isinstance(self.summarise, str) or callable(getattr(self.summarise, "call", None))
