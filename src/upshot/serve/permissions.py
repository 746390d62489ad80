"""Who may see, start, answer, operate, annotate and assign: the only place that decides this.

Every door asks these functions, and asks again just before the effect if it has waited in
between. They are pure: they take a user, the owner of the run, and what is requested.

The owner of a run is a user together with a tenant. A user without a tenant owns runs without one;
``sam`` of ``acme`` is another user than ``sam``. Roles of a user without a tenant apply to all
runs, roles of a user with a tenant to the runs of that tenant.

Names that a client chooses (of chats, contexts, conversations, idempotency keys) are scoped: two
users who choose the same name do not collide, and neither can find out that the other chose it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, TypedDict

from upshot.contract.pending import Audience
from upshot.contract.user import User
from upshot.errors import Misuse

Owner: TypeAlias = tuple[str, str]
"""The user and the tenant that a run belongs to."""

Need: TypeAlias = Literal["see", "operate", "fork", "note"]
"""What a user wants to do with a run: see it, act on it, fork it, or attach notes to it."""

_ESCAPES = (("%", "%25"), ("~", "%7E"), ("/", "%2F"))


class NoUser(Misuse):
    """The sender of the request is unknown: 401.

    Attributes:
        sign_in: The path where a browser signs in, "" if there is none.
    """

    def __init__(self, message: str, sign_in: str = "") -> None:
        super().__init__(message)
        self.sign_in = sign_in


class Missing(Misuse):
    """What was requested does not exist, or belongs to another user: 404."""


class TooMany(Misuse):
    """The user has sent too many requests: 429."""


class Refused(Misuse):
    """The user may not do that: 403."""


class Differs(Misuse):
    """The conversation has continued beyond what the client knows: 409."""


class Asked(NamedTuple):
    """Something that a run waits for.

    Attributes:
        owner: The owner of the run; None if that is not known.
        agent: The agent of the run.
        tool: The tool whose call waits; "" for a question.
        audience: "user" is for the owner of the run too, "staff" for staff alone.
    """

    owner: Owner | None
    agent: str
    tool: str = ""
    audience: Audience = "staff"


def owner_of(user: User) -> Owner:
    """Return the owner of the runs that a user starts."""
    return user.id, user.tenant


def owns(user: User, owner: Owner | None) -> bool:
    """Whether a run belongs to a user."""
    return owner == owner_of(user)


def may_see(user: User, owner: Owner | None) -> bool:
    """Whether a user may see the runs of an owner; None owns no run."""
    reaches = owner is not None and user.tenant in ("", owner[1])
    return owns(user, owner) or (reaches and user.may("view"))


def may_start(user: User, agent: str) -> bool:
    """Whether a user may start runs of an agent."""
    return user.may_start is None or agent in user.may_start


def may_operate(user: User, owner: Owner | None) -> bool:
    """Whether a user may stop, resume and fork a run, and speak in its conversation."""
    return may_see(user, owner) and (owns(user, owner) or user.may("operate"))


def may_answer(user: User, asked: Asked, *, door: str = "") -> bool:
    """Whether a user may answer what a run waits for, and assign or snooze it.

    Args:
        user: The user.
        asked: What is asked.
        door: The protocol that the answer came through; "" for the console. What waits for staff
            can be answered in the console only.
    """
    if asked.audience == "user" and owns(user, asked.owner):
        return True
    may_reach = may_see(user, asked.owner) and (asked.audience == "user" or not door)
    return may_reach and user.may_answer(asked.agent, asked.tool)


def may_settle(user: User, owner: Owner | None, agent: str, tool: str) -> bool:
    """Whether a user may settle an unknown effect."""
    return may_see(user, owner) and (user.may("operate") or user.may_answer(agent, tool))


def may_note(user: User, owner: Owner | None, agent: str) -> bool:
    """Whether a user may attach notes to a run: its owner, an operator, or staff who answer it."""
    answers = user.may("answer") and (not user.agents or agent in user.agents)
    return may_operate(user, owner) or (may_see(user, owner) and answers)


def may_use_lab(user: User) -> bool:
    """Whether a user may see experiments and collect datasets: they have runs of all owners."""
    return user.may("view") and not user.tenant


def may_drain(user: User) -> bool:
    """Whether a user may keep a worker from taking more runs: those are of all owners."""
    return may_use_lab(user) and user.may("operate")


def may_audit(user: User) -> bool:
    """Whether a user may read the audit: all of it, or what concerns their tenant."""
    return user.may("audit")


def may_end_sessions(user: User) -> bool:
    """Whether a user may see and end others' sessions; with a tenant, only those of the tenant."""
    return user.may("operate")


class OwnerFilters(TypedDict, total=False):
    """The filters of lists by owner.

    Attributes:
        owner: A user, of *tenant* or of none.
        tenant: A tenant.
    """

    owner: str
    tenant: str


def list_filters(user: User) -> OwnerFilters:
    """Return the list filters that leave exactly what a user may see."""
    if user.may("view"):
        return {"tenant": user.tenant} if user.tenant else {}
    return {"owner": user.id, "tenant": user.tenant}


def to_scoped(owner: Owner, name: str) -> str:
    """Return a client's name as one that no other user can have: ``name~user~tenant``.

    For a user without a tenant it is ``name~user``. A branch keeps what follows the first slash:
    ``chat/1`` is ``chat~user/1``. Within a part ``%``, ``~`` and ``/`` are percent-encoded.
    """
    head, slash, branch = name.partition("/")
    scope = "~".join(map(_escaped, (head, *filter(None, owner))))
    return f"{scope}{slash}{branch}"


def from_scoped(owner: Owner, name: str) -> str:
    """Return a scoped name as the owner's client chose it; any other name stays as it is."""
    head, slash, branch = name.partition("/")
    chosen, _, scope = head.partition("~")
    if f"~{scope}" != to_scoped(owner, ""):
        return name
    for char, escape in reversed(_ESCAPES):
        chosen = chosen.replace(escape, char)
    return f"{chosen}{slash}{branch}"


def _escaped(text: str) -> str:
    for char, escape in _ESCAPES:
        text = text.replace(char, escape)
    return text
