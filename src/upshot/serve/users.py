"""Who asks, and what that one may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from upshot.contract.base.structs import Value, check_types, freeze
from upshot.errors import Misuse

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

Role = Literal["own", "view", "answer", "operate", "owner"]


class User(Value, frozen=True, kw_only=False):
    """Somebody who is signed in.

    Without roles a user reaches the doors of protocols: there he sees what is public of his own
    runs, and answers what they ask him: questions of the agent, and approvals of tools with
    ``ask="user"``. Any role opens the console, which shows whole logs.

    Attributes:
        id: Who it is; it stands as ``by`` at answers, and names the owner of runs.
        roles: "own" sees his own runs in the console; "view" sees those of others too; "answer"
            answers what waits for staff; "operate" resumes, forks, edits, interrupts and cancels
            runs of others, and speaks in their conversations; "owner" is all of them.
        tenant: Whose runs the roles are for; "" is those of everybody.
        agents: With "answer": only what runs of these agents ask; empty is all.
        tools: With "answer": only calls of these tools; empty is all.
        may_start: The agents of which the user may start runs; None is all, empty is none.

    Raises:
        Misuse: A field has the wrong type, the id is empty, or there is no such role.
    """

    id: str
    roles: tuple[Role, ...] = ()
    tenant: str = ""
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    may_start: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("roles", "agents", "tools", "may_start"):
            freeze(self, name)
        check_types(self)
        if not self.id:
            raise Misuse("the id of a User is empty: give what your sign-in names the user by")

    def may(self, role: Role) -> bool:
        """Whether the user has a role."""
        return role in self.roles or "owner" in self.roles

    def may_answer(self, agent: str, tool: str) -> bool:
        """Whether the user may answer for staff.

        Args:
            agent: Whose run asks.
            tool: The tool whose call waits, "" for another question.
        """
        is_theirs = not self.agents or agent in self.agents
        return self.may("answer") and is_theirs and (not self.tools or tool in self.tools)


UserOf: TypeAlias = "Callable[[HTTPConnection], Awaitable[User | None] | User | None]"
"""Says who sent a request; None is nobody."""


class NoUser(Misuse):
    """A request of nobody who is known: 401."""


class Missing(Misuse):
    """What is asked for is not there, or is another's: 404."""


class TooMany(Misuse):
    """The user has sent too many requests: 429."""


class Refused(Misuse):
    """The user may not do that: 403."""
