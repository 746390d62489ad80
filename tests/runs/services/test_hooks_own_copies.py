"""What a hook is shown is its own: nothing that it does to it changes the run or another hook."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import Agent, AgentResult, Request, ScriptedModel, run

HOOKS = ("on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end")


class Meddler:
    """Writes into every mapping that it is shown."""

    def __getattr__(self, name: str) -> Any:
        if name not in HOOKS and name != "before_finalize":
            raise AttributeError(name)

        def meddle(info: Any, *shown: Any) -> None:
            for one in (info, *shown):
                for field in ("attributes", "inputs", "metadata", "state"):
                    if isinstance(found := getattr(one, field, None), dict):
                        found["mine"] = name
                        for value in found.values():
                            if isinstance(value, list):
                                value.append(name)

        return meddle


class Looker:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name not in HOOKS:
            raise AttributeError(name)
        return lambda *shown: self.seen.extend(shown)


REQUEST = Request("?", inputs={"names": ["ann"]}, metadata={"of": ["me"]})


async def asked(**options: Any) -> AgentResult[Any]:
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["Hi."]))
    return await run(agent, REQUEST, attributes={"tenant": ["acme"]}, **options)


@pytest.mark.parametrize("role", ["observers", "deciders", "committers"])
async def test_what_a_hook_is_shown_is_its_own(role: str) -> None:
    looker, meddler = Looker(), Meddler()
    hook: Any = meddler.before_finalize if role == "committers" else meddler
    options: dict[str, Any] = {role: [hook]}
    options["observers"] = [*options.get("observers", ()), looker]
    result = await asked(**options)
    alone = await asked()
    assert (result.state, result.metadata, result.committed) == (alone.state, alone.metadata, True)
    assert (REQUEST.inputs, REQUEST.metadata) == ({"names": ["ann"]}, {"of": ["me"]})
    for one in looker.seen:
        assert "mine" not in repr(one), one


async def test_a_committer_is_shown_a_result_that_is_committed() -> None:
    seen: list[bool] = []

    def store(info: Any, request: Any, result: Any) -> None:
        seen.append(result.committed)

    def fail(info: Any, request: Any, result: Any) -> None:
        raise OSError("the disk is full")

    assert (await asked(committers=[store])).committed
    assert not (await asked(committers=[store, fail])).committed
    assert seen == [True, True]
