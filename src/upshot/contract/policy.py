"""Policy: which tools a run may call, whatever its model says."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ..errors import Misuse
from .keyword import KeywordMeta
from .value import Value, check_types, set_field
from .words import Effect

__all__ = ["Policy"]

_EFFECTS = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)
_NETWORK = ("on", "off")


class Policy(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """Rules on tools, held at every call.

    A rule is the name of a tool or a glob of names (``"mail_*"``), the effect that a tool
    declares (``"effect:write"``, or the ``Effect`` itself), or whether it declares the network
    (``"network:on"``, ``"network:off"``).

    Attributes:
        allow: Only tools that one of these rules fits may be called; None is all. The
            Toolbox's own ``read_artifact`` needs no rule.
        deny: Tools that one of these rules fits may not be called, whatever ``allow`` says.
        taint: Whether calls that may write need approval once an untrusted result is in the
            context, whatever the tool declares.
        network: Whether tools that declare the network may be called.
        approval_expires_s: Seconds after which an unanswered approval has to be asked anew,
            unless the tool has its own; None is never.

    Raises:
        Misuse: A rule is of none of these forms, or another field is not of its type.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    taint: bool = False
    network: bool = True
    approval_expires_s: float | None = None

    def __post_init__(self) -> None:
        if self.allow is not None:
            set_field(self, "allow", _read_rules("allow", self.allow))
        set_field(self, "deny", _read_rules("deny", self.deny))
        check_types(self, "taint", "network", "approval_expires_s")
        expires_s = self.approval_expires_s
        if expires_s is not None and not expires_s >= 0:
            raise Misuse(f"approval_expires_s is {expires_s}: give seconds, or None for never")

    def refusal(self, tool_name: str, *, effect: Effect, network: bool, own: bool = False) -> str:
        """Why a tool may not be called, "" if it may.

        Args:
            tool_name: The tool.
            effect: What it declares; write where it declares nothing.
            network: Whether it declares the network.
            own: Whether it is the Toolbox's own, which ``allow`` need not name.
        """
        if network and not self.network:
            return f"{tool_name} needs the network, which is off"
        known = (f"effect:{effect}", f"network:{_NETWORK[not network]}")
        for rule in self.deny:
            if _fits(rule, tool_name, known):
                return f"the policy denies {rule}"
        if self.allow is None or own:
            return ""
        if any(_fits(rule, tool_name, known) for rule in self.allow):
            return ""
        return f"the policy does not allow {tool_name}"


def _fits(rule: str, tool_name: str, known: tuple[str, ...]) -> bool:
    # No name of a tool has a colon in it.
    return rule in known if ":" in rule else fnmatchcase(tool_name, rule)


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
