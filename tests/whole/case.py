"""A case, made from a seed: an agent, what its provider and tools do, and what happens to the run.

A case is plain data, so that the provider, the tools and a child process build the same one from
its number. Each call of a script has a *tag*, which names the call in the book of effects and
shows the provider how far a run is: ``~TASK.ATTEMPT.AGENT.TURN/PLACE``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

DIALECTS = {
    "chat": "openai:m",
    "messages": "anthropic:m",
    "responses": "openai-responses:m",
    "gemini": "google:m",
}

FAULTS = {
    "429": ("rate_limit", True),
    "429 with windows": ("rate_limit", True),
    "500": ("server_error", True),
    "529": ("server_error", True),
    "401": ("auth_error", False),
    "400": ("invalid_request", False),
    "reset": ("server_error", True),
    "no JSON": ("server_error", True),
    "empty": ("empty_reply", True),
    "cut": ("server_error", True),
    "error in a 200": ("server_error", True),
}
"""What a provider does instead of replying: the error's code, and whether it is retryable."""

WRITES = ("change", "change_in_thread", "put", "pay", "apart", "slow", "slow_in_thread")
READS = ("look", "look_in_thread", "slow_look")
REPEATABLE = (*READS, "put")
"""Tools whose body may run twice for one call."""
PATHS = ("run", "run_sync", "start", "start", "start", "resume", "leave", "kill")
DOORS = ("worker", "close", "killed worker", "responses", "ui", "ag-ui", "a2a", "console", "mcp")

LIMITS = (
    ("max_turns", 2),
    ("max_turns", 3),
    ("max_tool_calls", 2),
    ("max_tokens", 900),
    ("max_cost_usd", 2),
    ("deadline_s", 0.02),
    ("deadline_s", 0.1),
)
LIMIT_CODES = {
    "max_turns": "max_turns",
    "max_tokens": "budget_exceeded",
    "max_cost_usd": "budget_exceeded",
    "deadline_s": "timeout",
}

IDS = ("own", "own", "by place", "one", "none")
"""How a provider names its calls: each with its own id, by its place in the reply, all with the
same id, or not at all.
"""

APPROVED = ("pay",)
SLOW = ("slow", "slow_in_thread", "slow_look")

WAYS = ("return", "large", "raise before", "raise after", "error", "none", "failed", "applied")
SLOW_WAYS = ("late", "hang")


@dataclass(frozen=True)
class Call:
    """One tool call of a reply.

    Attributes:
        id: The provider's id of the call; see ``IDS``.
        way: What the tool's body does.
        answer: The user's answer: "yes", "no", or later: "later yes", "later no", "later edit".
        is_malformed: Whether its arguments are truncated JSON.
    """

    tool: str
    tag: str
    id: str
    way: str = "return"
    answer: str = "yes"
    is_malformed: bool = False


@dataclass(frozen=True)
class Reply:
    """The provider's reply at one turn, after its faults, one for each earlier request.

    Attributes:
        finish: Why it stopped, "" for the natural reason.
        refusal: The refusal in place of a text.
        usage: "told", "missing", or "zero" (all zeros, which counts as missing).
        faults: What happens at the requests before.
        other_faults: What the second model of a fallback does at them.
        cut_at: How much of it is sent before a fault in the middle.
    """

    text: str
    calls: tuple[Call, ...] = ()
    finish: str = ""
    refusal: str = ""
    usage: str = "told"
    tokens: tuple[int, int] = (10, 5)
    faults: tuple[str, ...] = ()
    other_faults: tuple[str, ...] = ()
    cut_at: float = 0.5


@dataclass(frozen=True)
class Case:
    """A whole case.

    Attributes:
        scripts: The replies by task, attempt and agent.
        tries: ``Retry.max_tries``; 1 is no retry.
        stop: At which step, and how: ("request", "body" or "done", number, "cancel", "interrupt",
            "leave" for leaving the block of ``start`` there, or "close" for closing a worker
            there, after which another one continues).
        engine: What drives it: "loop"; "handoff" from a to b; or one with b and c as child
            runs: "script" (b, then a itself), "graph" (b, then c), "machine" (the same),
            "parallel" (a graph with both at the same time), "tool" (a's tool runs b), or "agent"
            (b is a tool of a).
        has_fallback: Whether a second model is called if the first one fails.
        limit: A limit of the run's budget, and its value.
        compaction: What replaces older messages: "", "nothing" or "model".
        tasks: The number of turns if it is a conversation.
        kills: At which steps its processes are killed, one after the other: "request", "body" or
            "done", and its number in that process.
        path: How the run is made.
        readers: How many watch it, and at which event each joins.
        journal: "", "memory" or "sqlite".
        revisions: How many times a decider asks for another attempt.
    """

    seed: int
    dialect: str
    scripts: dict[str, tuple[Reply, ...]]
    tries: int
    path: str
    journal: str
    engine: str = "loop"
    has_fallback: bool = False
    limit: tuple[str, float] | None = None
    compaction: str = ""
    tasks: int = 1
    kills: tuple[tuple[str, int], ...] = ()
    readers: tuple[int, ...] = ()
    stop: tuple[str, int, str] | None = None
    revisions: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether it is deterministic."""
        is_timed = self.limit is not None and self.limit[0] == "deadline_s"
        return not (self.stop or self.kills or is_timed or self.engine == "parallel")

    def describe(self) -> str:
        """Return the case as text."""
        lines = [f"case {self.seed}"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "scripts":
                for key, replies in value.items():
                    lines += [f"  script {key}:", *(f"    {reply}" for reply in replies)]
            elif field.name != "seed":
                lines.append(f"  {field.name}: {value}")
        return "\n".join(lines)


ENGINES = {
    "loop": "a",
    "handoff": "ab",
    "script": "ba",
    "graph": "bc",
    "machine": "bc",
    "parallel": "bc",
    "tool": "ab",
    "agent": "ab",
}
"""The engines, and the agents that each calls, in order."""


TO_B = {"handoff": "transfer_to_b", "tool": "ask_b", "agent": "b"}
"""The tools by which a leads to b."""


def calls_in(scripts: dict[str, tuple[Reply, ...]]) -> Iterator[Call]:
    """Return all calls of *scripts*."""
    return (call for script in scripts.values() for reply in script for call in reply.calls)


def _with_way_to_b(scripts: dict[str, tuple[Reply, ...]], engine: str) -> dict[str, Any]:
    """Return *scripts* with agent a's last turn before its answer leading to agent b."""
    key = script_key(0, 0, "a")
    *others, last = scripts[key]
    turn = len(others)
    call = Call(TO_B[engine], f"{key}.{turn}/0", f"b{turn}")
    to_b = replace(last, calls=(call,), finish="")
    if engine == "handoff":
        return {**scripts, key: (*others, to_b)}
    answer = replace(last, text=f"{key}.{turn + 1} Asked.", faults=(), other_faults=())
    return {**scripts, key: (*others, to_b, answer)}


def script_key(task: int, attempt: int, agent: str) -> str:
    """Return the key of a script."""
    return f"~{task}.{attempt}.{agent}"


@cache
def make_case(seed: int) -> Case:
    """Return case number *seed*."""
    return _Maker(seed).make()


class _Maker:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._seed = seed
        self._ids = 0

    def make(self) -> Case:
        """Make the case."""
        rng = self._rng
        self._dialect = rng.choice([*DIALECTS])
        self._is_rough = rng.random() < 0.6
        # The other two dialects have no calls without ids.
        named = len(IDS) - (self._dialect not in ("chat", "gemini"))
        self._naming = rng.choice(IDS[:named])
        self._engine = engine = rng.choices([*ENGINES], weights=(8, 2, 2, 2, 2, 1, 2, 3))[0]
        revisions = rng.choice((0, 0, 0, 1, 2)) if engine == "loop" else 0
        tasks = 2 if engine == "loop" and not revisions and rng.random() < 0.15 else 1
        self._has_fallback = False
        scripts = {
            script_key(task, attempt, agent): self._script(task, attempt, agent)
            for task in range(tasks)
            for attempt in range(revisions + 1)
            for agent in ENGINES[engine]
        }
        if engine in TO_B:
            scripts = _with_way_to_b(scripts, engine)
        path = rng.choice(DOORS if rng.random() < 0.2 else PATHS)
        if tasks > 1:
            path = "conversation"
        limit = rng.choice(LIMITS) if rng.random() < 0.15 and path not in DOORS else None
        if limit is not None and limit[0] == "max_tool_calls" and engine in TO_B:
            # The call that leads to b may be denied.
            limit = None
        if revisions and path in DOORS[1:]:
            # No door can request more than one attempt.
            path = "run"
        stop, kills = self._breaks(path, has_limit=limit is not None)
        parks = any(call.answer.startswith("later") for call in calls_in(scripts))
        journal = rng.choice(("memory", "sqlite") if parks else ("", "memory", "sqlite"))
        if path in ("resume", "leave", "kill", "conversation", *DOORS):
            journal = "sqlite"
        is_timed = limit is not None and limit[0] == "deadline_s"
        if self._dialect == "messages" and (is_timed or stop):
            self._dialect = "chat"
        readers = [rng.randint(0, 9) for _ in range(rng.choice((0, 1, 3)))]
        return Case(
            seed=self._seed,
            dialect=self._dialect,
            scripts=scripts,
            tries=rng.choice((1, 2, 3)),
            path=path,
            journal=journal,
            engine=engine,
            has_fallback=self._has_fallback,
            limit=limit,
            compaction=rng.choice(("nothing", "model")) if rng.random() < 0.1 else "",
            tasks=tasks,
            kills=tuple(kills),
            readers=tuple(readers if journal else readers[:1]) if path == "start" else (),
            stop=stop,
            revisions=revisions,
        )

    def _breaks(
        self, path: str, *, has_limit: bool
    ) -> tuple[tuple[str, int, str] | None, list[tuple[str, int]]]:
        """Return where the run is stopped, and where its processes are killed."""
        rng = self._rng
        if path in ("kill", "killed worker"):
            # A run that kills its worker three times is abandoned.
            many = rng.choice((1, 1, 1, 2, 3) if path == "kill" else (1, 1, 2))
            steps = ("request", "body", "done")
            return None, [(rng.choice(steps), rng.randint(1, 4)) for _ in range(many)]
        if path in ("close", "leave"):
            return (rng.choice(("request", "body", "done")), rng.randint(1, 4), path), []
        if path == "resume" or (rng.random() < 0.15 and not has_limit):
            way = rng.choice(("cancel", "interrupt"))
            stop = rng.choice(("request", "body")), rng.randint(1, 4), way
            return (None if path in ("conversation", *DOORS) else stop), []
        return None, []

    def _script(self, task: int, attempt: int, agent: str) -> tuple[Reply, ...]:
        turns = self._rng.randint(1, 4)
        key = script_key(task, attempt, agent)
        working = [self._reply(f"{key}.{turn}", calls=True) for turn in range(turns - 1)]
        return (*working, self._reply(f"{key}.{turns - 1}", calls=False))

    def _reply(self, mark: str, *, calls: bool) -> Reply:
        rng = self._rng
        faults: list[str] = []
        if self._is_rough and rng.random() < 0.4:
            faults = rng.choices([*FAULTS], k=rng.choice((1, 1, 1, 2, 3)))
        made = [self._call(mark, place) for place in range(rng.choice((1, 1, 2, 3)))]
        said = f"{mark} " + "Word after word. " * rng.choice((0, 1, 1, 5))
        is_rough, refusal = self._is_rough, ""
        if (
            is_rough
            and not calls
            and self._dialect in ("chat", "responses")
            and not rng.randrange(12)
        ):
            said, refusal = "", said + "No."
        ends = ("length", "length", "content_filter")
        return Reply(
            text=said,
            refusal=refusal,
            calls=tuple(made) if calls else (),
            finish=rng.choice(ends) if is_rough and not refusal and rng.random() < 0.1 else "",
            usage=rng.choice(("missing", "zero")) if is_rough and rng.random() < 0.1 else "told",
            tokens=(rng.randint(10, 999), rng.randint(1, 99)),
            faults=tuple(faults),
            other_faults=tuple(rng.choices([*FAULTS], k=rng.choice((0, 1, 2))))
            if self._has_fallback
            else (),
            cut_at=rng.random(),
        )

    def _call(self, mark: str, place: int) -> Call:
        rng = self._rng
        tool = rng.choices((*READS, *WRITES), weights=(6, 3, 1, 6, 3, 3, 3, 0.15, 1, 1))[0]
        ways = SLOW_WAYS if tool in SLOW else WAYS[:-1] if tool in READS else WAYS
        rough = self._is_rough and rng.random() < 0.4
        self._ids += 1
        names = {"own": f"c{self._ids}", "by place": f"c{place}", "one": "c", "none": ""}
        # A run that a tool runs cannot wait, because the tool has ended by then.
        later = ("later yes", "later no", "later edit") if self._engine != "tool" else ("no",)
        return Call(
            tool=tool,
            tag=f"{mark}/{place}",
            id=names[self._naming],
            way=rng.choice(ways) if tool in SLOW or rough else "return",
            answer=rng.choice(("yes", "yes", "no", *later)) if tool in APPROVED else "yes",
            is_malformed=self._is_rough and self._dialect != "gemini" and rng.random() < 0.05,
        )
