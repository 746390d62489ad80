"""Users: who sends a request over HTTP, and their roles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from upshot.contract.base.structs import Value, check_types, freeze
from upshot.errors import Misuse

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

Role = Literal["own", "view", "answer", "operate", "audit", "owner"]


class User(Value, frozen=True, kw_only=False):
    """A signed-in user.

    Without roles a user can use the doors of protocols: there they see the public part of their own
    runs, and answer what is asked of them: questions of the agent, and approvals of tools with
    ``ask="user"``. Any role opens the console, which shows whole logs.

    Attributes:
        id: The user's id; it is the ``by`` of their answers, and the owner of their runs.
        roles: "own" shows the user's own runs in the console; "view" shows those of other users
            too; "answer" answers what waits for staff; "operate" resumes, forks, edits, interrupts
            and cancels other users' runs, and writes in their conversations; "audit" reads the
            audit; "owner" is all of them.
        tenant: The tenant that the roles apply to; "" means all tenants.
        agents: With "answer": only questions from runs of these agents; empty means all.
        tools: With "answer": only calls of these tools; empty means all.
        may_start: The agents that the user may start; None means all, an empty tuple means none.

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
            agent: The agent of the run that asks.
            tool: The tool whose call waits; "" for another question.
        """
        is_theirs = not self.agents or agent in self.agents
        return self.may("answer") and is_theirs and (not self.tools or tool in self.tools)


UserOf: TypeAlias = "Callable[[HTTPConnection], Awaitable[User | None] | User | None]"
"""Returns the sender of a request; None if unknown."""
