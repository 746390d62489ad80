"""Case: one tool call on its way through the gates to its outcome."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime

from ..contract import (
    ApprovalRecord,
    Coercion,
    Effect,
    GateVerdict,
    Json,
    JsonObject,
    PendingApproval,
    ToolCall,
    ToolOutcome,
)
from ..errors import Misuse
from .canonical import canonical_json
from .catalog import Catalog
from .check import Refused
from .definition import Tool
from .replay import Flight
from .turn import Turn

__all__ = ["Case", "running_case"]

running_case: ContextVar[Case | None] = ContextVar("upshot_case", default=None)
"""The call whose body is running in this context."""


class Case:
    """One call under way; what a gate looks at and what its record is made of.

    A gate of your own may read all of it; only ``asks`` is for you to set.

    Attributes:
        call: The call as the model made it.
        turn: The tool turn that it belongs to.
        catalog: The tools.
        label: What the caller of ``dispatch`` called the turn.
        tool: The tool, None until the gate known_tool has found it.
        source: What the arguments are read from: the model's, or a hook's or person's edit.
        given: The arguments as the body gets them: parsed, coerced and valid.
        arguments: The same with the schema's defaults filled in.
        values: The typed values of ``given``.
        coercions: What was changed to fit the schema.
        trace: What each gate said.
        asks: Why people shall be asked whatever the tool declares; "" if they need not be.
        answered: Whether somebody's answer is at hand, so that nobody else is asked.
        distrusted: Whether that is because untrusted results are in the context.
        edited: Whether a hook or a person has changed the arguments.
        refused: What was wrong before a model corrected the arguments; None where none has.
        mended: What a model corrected them to; None where none has.
        content: What the model reads of its outcome, None where nobody has written it yet.
        dry: Whether nobody is asked and nothing is done: what would come of it is wanted.
        granted: Digest of what a person let pass, "" for none.
        approval: Who let it run, or did not.
        pending: What is asked, where it is parked.
        follows: The id of the parked call whose equal it is, and which it waits for; "" for none.
        held: Its flight in replay control, None where it has none.
        resources: What it touches, None for anything.
        idempotency_key: What the body is given to recognise a repetition.
        mode: How the body runs: async or thread; "" before it does.
        attempts: How often the body was started.
        started_at: When it was started first.
        run_started: The same on the monotonic clock.
        opened: When the call came in, on the monotonic clock.
        paused_s: Seconds that people took.
        lossy: Paths of output values that JSON cannot hold.
        trust: "untrusted" where its body has brought in words of strangers, whatever the tool
            declares; else "".
        redactions: How many secrets were masked in its output.
        place: Which gate is next.
        wait: What a gate waits for, None for nothing.
        outcome: What came of it, None while it is open.
    """

    # Slots: one is made for every call, and a misspelt attribute must not go unseen.
    __slots__ = (
        "_digest",
        "answered",
        "approval",
        "arguments",
        "asks",
        "attempts",
        "call",
        "catalog",
        "coercions",
        "content",
        "distrusted",
        "dry",
        "edited",
        "follows",
        "given",
        "granted",
        "held",
        "idempotency_key",
        "label",
        "lossy",
        "mended",
        "mode",
        "opened",
        "outcome",
        "paused_s",
        "pending",
        "place",
        "redactions",
        "refused",
        "resources",
        "run_started",
        "source",
        "started_at",
        "tool",
        "trace",
        "trust",
        "turn",
        "values",
        "wait",
    )

    def __init__(
        self, call: ToolCall, *, turn: Turn, catalog: Catalog, label: int, opened: float
    ) -> None:
        if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"calls are a list of ToolCalls, and {call!r:.60} is none")
        self.call: ToolCall = call
        self.turn: Turn = turn
        self.catalog: Catalog = catalog
        self.label: int = label
        self.opened: float = opened
        self.tool: Tool | None = None
        self.source: str | Mapping[str, Json] = call.arguments
        self.given: JsonObject = {}
        self.arguments: JsonObject | None = None
        self.values: dict[str, object] = {}
        self.coercions: tuple[Coercion, ...] = ()
        self.trace: list[GateVerdict] = []
        self.asks: str = ""
        self.refused: Refused | None = None
        self.mended: str | JsonObject | None = None
        self.answered: bool = False
        self.distrusted: bool = False
        self.dry: bool = False
        self.edited: bool = False
        self.granted: str = ""
        self.approval: ApprovalRecord | None = None
        self.pending: PendingApproval | None = None
        self.held: Flight | None = None
        self.follows: str = ""
        self.resources: frozenset[str] | None = None
        self.place: int = 0
        self.idempotency_key: str = ""
        self.mode: str = ""
        self.attempts: int = 0
        self.started_at: datetime | None = None
        self.run_started: float | None = None
        self.paused_s: float = 0.0
        self.lossy: tuple[str, ...] = ()
        self.outcome: ToolOutcome | None = None
        self.content: str | None = None
        self.redactions: int = 0
        self.trust: str = ""
        self.wait: asyncio.Future[object] | None = None
        self._digest = ""

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        return self.call.id

    @property
    def tool_name(self) -> str:
        """The tool as the model named it."""
        return self.call.name

    @property
    def effect(self) -> Effect:
        """What the tool says it may do; write where it is unknown."""
        return Effect.WRITE if self.tool is None else self.tool.declared_effect

    @property
    def known_tool(self) -> Tool:
        """The tool, once the gate known_tool has let the call pass."""
        if self.tool is None:
            raise RuntimeError(f"the call of {self.tool_name!r} has not passed known_tool")
        return self.tool

    @property
    def digest(self) -> str:
        """SHA-256 over the tool, its version and the valid arguments."""
        if not self._digest:
            tool = self.known_tool
            said = canonical_json([tool.name, tool.version, self.arguments])
            self._digest = hashlib.sha256(said).hexdigest()
        return self._digest

    def settle_arguments(
        self,
        given: JsonObject,
        filled: JsonObject,
        values: dict[str, object],
        coercions: tuple[Coercion, ...],
    ) -> None:
        """Take arguments that were found valid."""
        self.given, self.arguments, self.values = given, filled, values
        self.coercions, self._digest = coercions, ""
