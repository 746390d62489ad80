"""A case: an agent, what its provider and its tools do, and what happens on the way, from a seed.

A case is plain data, so that the provider, the tools and a child process make the same one from
its number. Each call of a script has a *tag*, which names the call in the book of effects and
tells the provider how far a run is: ``~TASK.ATTEMPT.AGENT.TURN/PLACE``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from functools import cache

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
    "cut": ("server_error", True),
    "error in a 200": ("server_error", True),
    "no JSON": ("server_error", True),
    "empty": ("empty_reply", True),
}
"""What a provider does in place of a reply: the error's code, and whether it is retryable."""

WRITES = ("change", "change_in_thread", "put", "pay", "apart", "slow", "slow_in_thread")
READS = ("look", "look_in_thread", "slow_look")
REPEATABLE = (*READS, "put")
"""Tools whose body may run twice for one call."""
APPROVED = ("pay",)
SLOW = ("slow", "slow_in_thread", "slow_look")

WAYS = ("return", "large", "raise before", "raise after", "error", "none", "failed", "applied")
SLOW_WAYS = ("late", "hang")


@dataclass(frozen=True)
class Call:
    """One tool call of a reply.

    Attributes:
        id: The provider's id of the call.
        way: What the tool's body does.
        answer: What the user says: "yes", "no", or later: "later yes", "later no", "later edit".
        is_malformed: Whether its arguments are cut JSON.
    """

    tool: str
    tag: str
    id: str
    way: str = "return"
    answer: str = "yes"
    is_malformed: bool = False


@dataclass(frozen=True)
class Reply:
    """What the provider says at one turn, after its faults, one for each earlier request."""

    text: str
    calls: tuple[Call, ...] = ()
    finish: str = ""
    refusal: str = ""
    usage: str = "told"
    tokens: tuple[int, int] = (10, 5)
    faults: tuple[str, ...] = ()
    cut_at: float = 0.5


@dataclass(frozen=True)
class Case:
    """All of it.

    Attributes:
        scripts: The replies by task, attempt and agent.
        tries: ``Retry.max_tries``; 1 is no retry.
        stop: At which step, and how: ("request" or "body", number, "cancel" or "interrupt").
        path: How the run is made.
        readers: How many watch it, and at which event each joins.
        journal: "", "memory" or "sqlite".
        revisions: How often a decider asks for another attempt.
    """

    seed: int
    dialect: str
    scripts: dict[str, tuple[Reply, ...]]
    tries: int
    path: str
    journal: str
    readers: tuple[int, ...] = ()
    stop: tuple[str, int, str] | None = None
    revisions: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether it goes the same way each time."""
        return self.stop is None

    def describe(self) -> str:
        """The case, for people."""
        lines = [f"case {self.seed}"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "scripts":
                for key, replies in value.items():
                    lines += [f"  script {key}:", *(f"    {reply}" for reply in replies)]
            elif field.name != "seed":
                lines.append(f"  {field.name}: {value}")
        return "\n".join(lines)


def script_key(task: int, attempt: int, agent: str) -> str:
    """The key of a script."""
    return f"~{task}.{attempt}.{agent}"


@cache
def make_case(seed: int) -> Case:
    """The case of number *seed*."""
    return _Maker(seed).make()


class _Maker:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._seed = seed
        self._ids = 0

    def make(self) -> Case:
        rng = self._rng
        self._dialect = rng.choice([*DIALECTS])
        self._is_rough = rng.random() < 0.6
        revisions = rng.choice((0, 0, 0, 0, 0, 1, 2))
        scripts = {
            script_key(0, attempt, "a"): self._script(0, attempt, "a")
            for attempt in range(revisions + 1)
        }
        stop = None
        if rng.random() < 0.15:
            where = rng.choice(("request", "body"))
            stop = (where, rng.randint(1, 4), rng.choice(("cancel", "interrupt")))
        path = rng.choice(("run", "run_sync", "start", "start", "resume"))
        journal = rng.choice(("", "memory", "sqlite"))
        parks = any(
            call.answer.startswith("later")
            for script in scripts.values()
            for reply in script
            for call in reply.calls
        )
        if (parks or path == "resume") and not journal:
            journal = "memory"
        if path == "resume":
            journal = "sqlite"
        readers = tuple(rng.randint(0, 9) for _ in range(rng.choice((0, 1, 3))))
        if not journal:
            readers = readers[:1]
        return Case(
            seed=self._seed,
            dialect=self._dialect,
            scripts=scripts,
            tries=rng.choice((1, 2, 3)),
            path=path,
            journal=journal,
            readers=readers if path == "start" else (),
            stop=stop,
            revisions=revisions,
        )

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
        made = [self._call(f"{mark}/{place}") for place in range(rng.choice((1, 1, 2, 3)))]
        if self._is_rough and len(made) > 1 and rng.random() < 0.1:
            made = [Call(**{**vars(one), "id": made[0].id}) for one in made]
        said = f"{mark} " + "Word after word. " * rng.choice((0, 1, 1, 5))
        return Reply(
            text=said,
            calls=tuple(made) if calls else (),
            finish="length" if self._is_rough and not calls and rng.random() < 0.1 else "",
            usage=rng.choice(("zero", "missing")) if self._is_rough and rng.random() < 0.1 else "told",
            tokens=(rng.randint(10, 999), rng.randint(1, 99)),
            faults=tuple(faults),
            cut_at=rng.random(),
        )

    def _call(self, tag: str) -> Call:
        rng = self._rng
        tool = rng.choices((*READS, *WRITES), weights=(6, 3, 1, 6, 3, 3, 3, 0.15, 1, 1))[0]
        ways = SLOW_WAYS if tool in SLOW else WAYS[:-1] if tool in READS else WAYS
        rough = self._is_rough and rng.random() < 0.4
        self._ids += 1
        later = ("later yes", "later no", "later edit")
        return Call(
            tool=tool,
            tag=tag,
            id=f"c{self._ids}",
            way=rng.choice(ways) if tool in SLOW or rough else "return",
            answer=rng.choice(("yes", "yes", "no", *later)) if tool in APPROVED else "yes",
            is_malformed=self._is_rough and self._dialect != "gemini" and rng.random() < 0.05,
        )
