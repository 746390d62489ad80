"""Settings and limits of a run: model settings, retry, budget, policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

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
    # Only annotations use these, and messages build on this module.
    from upshot.contract.message import Message
    from upshot.contract.protocols import Model


class Budget(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Limits of a run; None means no limit.

    Attributes:
        deadline_s: Seconds from the start until the run fails with timeout.
        working_s: The same, without the time spent waiting for the user.
        max_turns: The maximum number of model calls of an engine, or steps of a machine or graph.
        max_tool_calls: The maximum number of tool calls in all.
        max_calls_per_tool: The maximum number of calls of one tool.
        max_denials: The maximum number of denied tool calls; after that every call is denied.
        max_tokens: The maximum number of tokens of all model calls, child runs included.
        max_cost_usd: The maximum cost, in US dollars.
        max_depth: How deep child runs may nest; the root run has depth 0.
        tool_timeout_s: Seconds for a tool that sets no timeout.
        scope: What ``max_cost_usd`` and ``max_tokens`` count: "run" is this run and its child runs,
            "conversation" all runs of its conversation, as the journal has them before each call.
        unpriced: What a cost limit does about a model without a price. "refuse" raises Misuse at
            the start, and after a reply without usage it ends the run before the next call; "allow"
            does not count such calls.
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
            # Not below zero, and not NaN.
            if isinstance(limit, int | float | Decimal) and not limit >= 0:
                raise Misuse(f"{name} is {limit}: give 0 or more, or None for no limit")


class Quota(Value, frozen=True, metaclass=CheckedMeta):
    """A limit shared by all runs of a journal that are given it; None means no limit.

    A call starts only if the most that it can use is left, so a quota is never exceeded.

    Attributes:
        name: Its name in the journal and in errors; quotas of one name and scope count together.
        scope: Whose use is counted: "all" runs, one "run" with its child runs and the runs that it
            hands over to, or one "conversation", "agent" or "tenant".
        attribute: The attribute of a run that names its tenant.
        max_cost_usd: The maximum cost, in US dollars.
        max_tokens: The maximum number of tokens, input and output.
        max_runs: The maximum number of runs; a run counts from its first model call, and child runs
            do not count.
        per: When the count is reset: each "day" or "month", in UTC; None means never.

    Raises:
        Misuse: A field has another value, or there is no limit.
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
"""What needs approval once untrusted content is in the context; see ``Policy.taint``."""
WordsRule: TypeAlias = Literal["said", "links", "open"]
"""Which text may be sent to others; see ``Policy.words``."""


OnUnknown: TypeAlias = Literal["tell", "ask", "stop"]
"""What a run does if it is unknown whether a call took effect: continue and inform the model
("tell"), park and ask, or fail ("stop")."""


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
            ``["effect:write"]`` requires approval for every writing call.
        approvals: How many different users must approve a call, by rule: ``{"effect:destructive":
            2}``. Tools that match a rule need approval, as with ``ask``. If several rules match, or
            the tool has a number of its own, the largest counts.
        taint: What needs approval once untrusted content is in the context, whatever the tool
            declares. "ask" (True): calls that may write, and reads that declare the network, since
            either may carry data out. "values": the same calls, unless the user asked for such an
            act and each argument is vouched for by what the user said or by what ``@tool``
            declares. "off" (False): nothing.
        words: With "values", which ``content`` may be sent to anyone but the user: "said" only the
            user's own words; "links" any words, but addresses, links, numbers and accounts only if
            the user said them; "open" everything.
        user: The user's own addresses and account names.
        hosts: Hosts that network reads may always reach, as named by an argument
            ``target(format="url")``: exact, including any non-default port.
        network: Whether tools that declare the network may be called.
        approval_expires_s: Seconds until an unanswered approval expires and must be requested
            again, unless the tool sets its own; None means never.
        on_unknown: What a run does if the effect of a call is still unknown after ``verify``,
            unless the tool sets its own: "tell" (inform the model), "ask" (park with a
            ``PendingEffect``), "stop" (fail with ``effect_unknown``). None is "ask" for tools that
            declare ``destructive``, and "tell" for all other tools.

    Raises:
        Misuse: A rule has none of these forms, or a field has the wrong type.
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
    approvals: dict[str, int] = {}

    def __post_init__(self) -> None:
        for name in ("user", "hosts"):
            given: object = getattr(self, name)
            set_field(self, name, (given,) if isinstance(given, str) else given)
        freeze(self, "user", "hosts")
        if self.allow is not None:
            set_field(self, "allow", _read_rules("allow", self.allow))
        set_field(self, "deny", _read_rules("deny", self.deny))
        set_field(self, "ask", _read_rules("ask", self.ask))
        set_field(self, "approvals", _read_approvals(self.approvals))
        if isinstance(self.taint, bool):
            set_field(self, "taint", "ask" if self.taint else "off")
        check_types(
            self, "taint", "network", "approval_expires_s", "words", "user", "hosts", "on_unknown"
        )
        expires_s = self.approval_expires_s
        if expires_s is not None and not expires_s >= 0:
            raise Misuse(f"approval_expires_s is {expires_s}: give seconds, or None for never")

    def refusal(self, tool_name: str, *, effect: Effect, network: bool, own: bool = False) -> str:
        """Return the reason why a tool may not be called, "" if it may.

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
        """Return the reason why the user is asked about a tool, "" if no rule requires it.

        Args:
            tool_name: The tool, as for ``refusal``.
            effect: The effect that it declares; write if it declares none.
            network: Whether it declares the network.
        """
        needed = self.approvals_of(tool_name, effect=effect, network=network)
        if needed > 1:
            return f"the policy asks {needed} users about {tool_name}"
        rules = (*self.ask, *self.approvals)
        rule = _first(rules, tool_name, effect=effect, network=network)
        return f"the policy asks about {rule}" if rule else ""

    def approvals_of(self, tool_name: str, *, effect: Effect, network: bool) -> int:
        """Return how many different users must approve a call by the rules, 1 or more.

        Args:
            tool_name: The tool, as for ``refusal``.
            effect: The effect that it declares; write if it declares none.
            network: Whether it declares the network.
        """
        fit = [
            needed
            for rule, needed in self.approvals.items()
            if _first((rule,), tool_name, effect=effect, network=network)
        ]
        return max(fit, default=1)


def _first(rules: tuple[str, ...], tool_name: str, *, effect: Effect, network: bool) -> str:
    """Return the first rule that a tool matches, "" for none."""
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


def _read_approvals(given: object) -> dict[str, int]:
    if not isinstance(given, Mapping):
        raise Misuse(
            f'approvals is {given!r}: give the number of users by rule, such as {{"refund": 2}}'
        )
    found: dict[str, int] = {}
    for rule, needed in cast("Mapping[object, object]", given).items():
        if isinstance(needed, bool) or not isinstance(needed, int) or needed < 1:
            raise Misuse(f"approvals[{rule!r}] is {needed!r}: give a whole number of at least 1")
        found[_read_rule("approvals", rule)] = needed
    return found


def _read_rule(field: str, rule: object) -> str:
    if isinstance(rule, Effect):
        rule = f"effect:{rule}"
    if not isinstance(rule, str) or not rule:
        raise Misuse(
            f"{field} contains {rule!r}: a rule is a name, a glob, effect:... or network:..."
        )
    known = [f"effect:{word}" for word in _EFFECTS] + [f"network:{word}" for word in _NETWORK]
    if ":" in rule and rule not in known:
        raise Misuse(f"{field} contains {rule!r}: a rule with a colon is {' or '.join(known)}")
    return rule


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ModelSettings(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Settings of a model call; None leaves the choice to the provider.

    Settings of an agent and of a run are merged field by field; the run's win.

    Attributes:
        temperature: Usually from 0 to 2.
        top_p: From 0 to 1.
        max_tokens: The maximum number of tokens to generate, reasoning included.
        stop: Strings that stop the model.
        seed: For providers that can repeat a sample.
        tool_choice: "auto", "none", "required", or the name of one tool.
        parallel_tool_calls: Whether one reply may contain several calls.
        reasoning: An effort, or the maximum number of tokens for thinking; 0 or "none" turns it
            off.
        cache: Whether to mark the stable prefix for the provider's prompt cache. If a request of a
            loop does not start with the previous one, the run has the warning ``cache_lost``.
        hosted_tools: Tools that the provider itself runs: "web_search", "web_fetch",
            "code_execution" or "image_generation" where it has one, or an object in the provider's
            own form, such as ``{"type": "file_search", "vector_store_ids": [...]}``. Their calls
            and results are ``ServerToolBlock`` parts; no gate is asked about them.
        extra: Provider-specific fields, copied into the request body.
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
    hosted_tools: tuple[str | JsonObject, ...] | None = None
    extra: JsonObject = {}

    def __post_init__(self) -> None:
        for name in ("stop", "hosted_tools"):
            given: object = getattr(self, name)
            if isinstance(given, str | dict):
                set_field(self, name, (cast("object", given),))
        freeze(self, "stop", "hosted_tools")
        check_types(self)
        for name in ("temperature", "top_p"):
            number = getattr(self, name)
            if number is not None and not isfinite(number):
                raise Misuse(f"{name} is {number}: give a number")

    def merge(self, over: ModelSettings | None) -> ModelSettings:
        """Return these settings with the fields that *over* sets; ``extra`` is merged by key."""
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

    Only retryable errors are retried. A provider's Retry-After is the minimum wait, and jitter only
    makes it longer. If the wait would exceed ``max_wait_s`` or reach past the run's deadline, there
    is no retry: the error is returned with its retry_after_s. A session that continues a run counts
    the earlier tries, and waits for the rest of a wait.

    Attributes:
        max_tries: The maximum number of tries of one call, the first included; 1 or more.
        max_wait_s: The longest wait between two tries, in seconds; None means 60, or 3,600 in a
            worker, which needs no resources for a waiting run.
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
        # Not below zero, and not NaN.
        if not (self.most_s >= 0 and self.base_s >= 0):
            raise Misuse("max_wait_s and base_s are seconds: give 0 or more")

    @property
    def most_s(self) -> float:
        """The longest wait outside of a worker, in seconds."""
        return _MAX_WAIT_S if self.max_wait_s is None else self.max_wait_s

    def wait_s(
        self, tries: int, *, floor_s: float | None = None, draw: Callable[[], float]
    ) -> float | None:
        """Return the wait after *tries* failed tries.

        Args:
            tries: How many tries have failed, 1 or more.
            floor_s: The minimum wait in seconds that the provider asks for; None for none.
            draw: Returns a random number in [0, 1) for the jitter, which is up to half the backoff.

        Returns:
            Seconds, from *floor_s* to ``max_wait_s``; None if *floor_s* is greater, so that there
            is no further try.
        """
        most_s = self.most_s
        # Without a limit on the exponent, the product with a float would overflow.
        backoff_s = min(self.base_s * 2 ** min(tries - 1, _MAX_DOUBLINGS), most_s)
        least_s = max(floor_s or 0.0, 0.0)
        if least_s > most_s:
            return None
        # Jitter only lengthens the wait: before the minimum, the provider would refuse again.
        return min(max(least_s, backoff_s) + draw() * backoff_s / 2, most_s)


def _may_sum_up(value: object) -> bool:
    is_able = callable(value) or callable(getattr(value, "call", None))
    return isinstance(value, str) or (is_able and not isinstance(value, type))


_SUMMARISER = Allowed("'provider:name', a Model, or a function of the messages", fits=_may_sum_up)


@dataclass(frozen=True, kw_only=True)
class Compaction(metaclass=ArgumentsMeta):
    """When and how older messages are replaced in the requests to an agent's model.

    The loop engine checks it before each model call. The cut falls before a user's message, or
    before a reply among the messages that the run itself produced; then the request is still sent.
    A call and its outcome always stay together. If a model call fails with ``context_length``,
    older messages are replaced and the call is made once more. If the replacement itself fails, the
    run continues with all messages and the warning ``compaction_failed``; the next attempt at it is
    after another ``context_length``.

    Attributes:
        at_tokens: The number of input tokens from which messages are replaced, 1 or more, as the
            provider counted them for the last call. Without such a count nothing is replaced.
        keep_last: How many of the last messages are sent unchanged, 1 or more; more if the cut
            cannot fall there.
        summarise: What replaces the older messages: "provider:name" or a Model, which the run calls
            for a summary; a function, sync or async, that gets them and returns a text or a
            ``Message`` with the user's role; or None, which drops them.

    Raises:
        Misuse: A field has another value.
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
        """Return it as plain data: a model by its name, and without a function."""
        named = self.summarise if isinstance(self.summarise, str) else None
        if named is None and self.has_model:
            named = str(getattr(self.summarise, "name", ""))
        return {"at_tokens": self.at_tokens, "keep_last": self.keep_last, "summarise": named}

    @property
    def has_model(self) -> bool:
        """Whether a model makes the summary."""
        return isinstance(self.summarise, str) or callable(getattr(self.summarise, "call", None))
