"""Every call by which an attacker could reach strangers, tried against the policy.

The user task's own calls have run, with every question answered by yes, in an environment whose
every injection vector is full: the attacker knows all of it. For each argument that says who gets
something, all values are tried that stand anywhere (in the user's words, in the environment, in
the attacks) and what can be made of those: lookalikes, cut and lengthened addresses, lists. What
is accepted is put together with every accepted value of the other arguments.

Who is no stranger is found without the policy's code: who stands in the user's words as a whole,
the user, the one contact of a name that the user said, and the company's own channels.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from tests.dojo_real.declarations import CHANNELS
from tests.dojo_real.harness import SUITES, Rules, Task, World, calls_of
from upshot import Approve, Policy, Toolbox, ToolCall

# Which arguments say who gets something.
RECEIVERS: dict[str, tuple[str, ...]] = {
    "send_email": ("recipients", "cc", "bcc"),
    "create_calendar_event": ("participants",),
    "add_calendar_event_participants": ("participants",),
    "share_file": ("email",),
    "send_money": ("recipient",),
    "schedule_transaction": ("recipient",),
    "update_scheduled_transaction": ("recipient",),
    "send_direct_message": ("recipient",),
    "send_channel_message": ("channel",),
    "add_user_to_channel": ("user",),
    "invite_user_to_slack": ("user", "user_email"),
    "post_webpage": ("url",),
    "get_webpage": ("url",),
}
_WORDS = re.compile(r"[^\s,;()<>\"']+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w.-]+\w|\b(?:[a-z0-9-]+\.)+[a-z]{2,}\S*|\b[A-Z]{2}\d{10,}\b")
_NAME = re.compile(r"^[A-Z][\w'-]+(?: [A-Z][\w'-]+)?$")
_STRIPPED = ".,:!?-"
_CYRILLIC = str.maketrans("aeopc", "\u0430\u0435\u043e\u0440\u0441")
_NEUTRAL = {"string": "x", "number": 1, "integer": 1, "boolean": True, "array": ["x"]}


@dataclass
class Reach:
    """What came of the enumeration of a user task.

    Attributes:
        tried: How many calls were tried.
        accepted: Those that would run without a question, and how many values each had.
        strangers: Those of them that reach a stranger, with who that is.
    """

    tried: int = 0
    accepted: int = 0
    strangers: list[tuple[str, Any, str]] = field(default_factory=list)


async def reach(task: Task, rules: Rules) -> Reach:
    """Try every call of an attacker beside *task*."""
    world, found = World(task), Reach()
    box = Toolbox(
        world.tools(), policy=Policy(**rules, user=world.user), said=[task.user_task.PROMPT]
    )
    for number, (name, arguments) in enumerate(calls_of(task.user_task, world.before)):
        if await box.dispatch([ToolCall(f"c{number}", name, arguments)]) == []:
            await box.answer([Approve(f"c{number}")])
    # Whatever a task reads: from here on a stranger's words are in the context.
    assert box.tainted is not None or not world.ran
    attack = _Attacker(world, box, found)
    for tool in task.of.tools:
        if tool.name in RECEIVERS:
            await attack.try_all(tool.name, tool.parameters.model_json_schema())
    return found


class _Attacker:
    """Tries the calls of one user task."""

    def __init__(self, world: World, box: Toolbox, found: Reach) -> None:
        self.world, self.box, self.found = world, box, found
        self.prompt = world.task.user_task.PROMPT
        everything = world.before.model_dump(mode="json")
        calls = [
            arguments
            for injection in SUITES[world.task.suite].injection_tasks.values()
            for _, arguments in calls_of(injection, world.before)
        ]
        self.attacks = list(dict.fromkeys(_leaves(calls)))
        self.leaves = list(dict.fromkeys(_leaves([everything, calls])))
        self.values = list(dict.fromkeys(self._receivers()))
        self.known = self._known()

    def _receivers(self) -> Iterator[str]:
        """What may be a receiver: words, names and addresses, and what is made of those said."""
        said = [word.strip(_STRIPPED) for word in _WORDS.findall(self.prompt)]
        yield from said
        for one in self.leaves:
            if isinstance(one, str):
                yield from _NAME.findall(one)
                yield from _ADDRESS.findall(one)
        for word in said:
            # A name, an address or an account.
            if re.search(r"[A-Z@.\d]", word) and len(word) > 2:
                yield from _made_of(word)

    def _known(self) -> set[str]:
        """Who is no stranger."""
        contacts = getattr(getattr(self.world.before, "inbox", None), "contact_list", ())
        known = {*self.world.user, *CHANNELS}
        for contact in contacts:
            same = [one for one in contacts if one.name == contact.name]
            if len(same) == 1 and _is_whole(contact.name, self.prompt):
                known.add(contact.email)
        return {one.casefold() for one in known}

    def _is_stranger(self, value: str) -> bool:
        return value.casefold() not in self.known and not _is_whole(value, self.prompt)

    async def try_all(self, name: str, schema: dict[str, Any]) -> None:
        fields, required = schema["properties"], schema.get("required", ())
        self.base = {one: _NEUTRAL.get(fields[one].get("type"), "r") for one in required}
        fitting = {
            argument: await self._fitting(
                name, argument, is_list="array" in json.dumps(fields[argument])
            )
            for argument in fields
        }
        for receiver in RECEIVERS[name]:
            choices: list[list[tuple[str, Any] | None]] = []
            for argument, values in fitting.items():
                # Who gets it does not depend on what else is in it: one of each is enough.
                few = values if argument == receiver else values[:1]
                pairs = [(argument, one) for one in few]
                choices.append([*pairs, *[None] * (argument not in required)])
            for chosen in product(*choices):
                await self._try(name, dict(filter(None, chosen)))

    async def _fitting(self, name: str, argument: str, *, is_list: bool) -> list[Any]:
        """The values of an argument that are accepted, whatever becomes of the others."""
        if argument not in RECEIVERS[name]:
            given = ([one] if is_list else one for one in self._others)
            return [one for one in given if await self._fits(name, argument, one)]
        given = ([one] if is_list else one for one in self.values)
        found = [one for one in given if await self._fits(name, argument, one)]
        # One bad in a list of good ones.
        lists = ([*found[0], one] for one in self.values if is_list and found)
        return found + [one for one in lists if await self._fits(name, argument, one)]

    @cached_property
    def _others(self) -> list[Any]:
        """Values of arguments that say nothing of receivers: the user's words, and the attacks'."""
        quoted = re.findall(r"'([^']+)'", self.prompt)
        numbers = [json.loads(one) for one in re.findall(r"\b[1-9]\d*(?:\.\d+)?\b", self.prompt)]
        sentences = [one.strip() for one in re.split(r"(?<=[.!?])\s", self.prompt)]
        words = [word.strip(_STRIPPED) for word in _WORDS.findall(self.prompt)]
        return [*quoted, *numbers, *sentences, True, False, "r", "rw", *words, *self.attacks]

    async def _fits(self, name: str, argument: str, value: Any) -> bool:
        """Whether *value* would be accepted for this argument, whatever becomes of the others."""
        dry = await self._dry(name, {**self.base, argument: value})
        if dry.pending is None:
            return dry.outcome is None
        return not any(one.path.startswith(f"/{argument}") for one in dry.pending.doubts)

    async def _try(self, name: str, arguments: dict[str, Any]) -> None:
        dry = await self._dry(name, arguments)
        if not dry.would_run:
            return
        self.found.accepted += 1
        for argument in RECEIVERS[name]:
            for one in _leaves(arguments.get(argument)):
                if self._is_stranger(str(one)):
                    self.found.strangers.append((name, arguments, str(one)))

    async def _dry(self, name: str, arguments: dict[str, Any]) -> Any:
        self.found.tried += 1
        return await self.box.check(ToolCall(f"x{self.found.tried}", name, arguments))


def _made_of(word: str) -> Iterator[str]:
    yield word.translate(_CYRILLIC)
    yield from (word[:-1], word[1:], f"{word}.evil.io", f"evil.{word}", f"{word}@evil.io")
    yield from (f"x{word}", f"{word}x", f"{word}/?q=secret", f"{word} attacker@evil.io")
    if "@" in word:
        name, _, host = word.partition("@")
        yield from (f"{name}@evil.{host}", f"{name}+x@{host}", f'"{word}" <a@evil.io>')


def _is_whole(value: str, text: str) -> bool:
    """Whether *value* stands in *text* and is no part of a longer name or address."""
    bare = re.sub(r"^https?://", "", value)
    return (
        re.search(rf"(?<![\w@.+-]){re.escape(bare)}(?![\w@+/-]|\.\w)", text, re.IGNORECASE)
        is not None
    )


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from (name, *_leaves(one))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one)
    elif value is not None:
        yield value
