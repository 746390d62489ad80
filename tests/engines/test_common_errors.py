"""What code in a machine or graph raises: a bug, or a failure that it names or was told of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.graph_kit import walk
from tests.engines.machine_kit import asking, engine_of, go
from upshot import AgentResult, Graph, MachineEngine, ToolError
from upshot.engines import Node
from upshot.engines.common import read_failure
from upshot.testing import FakeClock


class Reply:
    headers = {"Retry-After": "45", "x-ratelimit-remaining-requests": "0"}
    status_code = 429


class RateLimitError(Exception):
    """What the client of a provider raises."""

    status_code = 429
    response = Reply()


class Hooks:
    def __init__(self) -> None:
        self.told: list[Exception] = []

    def on_error(self, state_name: str, error: Exception, context: Any) -> None:
        self.told.append(error)


class Foreign:
    """An agent of another kind, which raises what it has before it answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def execute(self, input: Any, context: Any) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"


LEADING = "on_error: other\ntransitions: [{to: done}]"


async def told_of(error: Exception, hooks: Hooks) -> AgentResult[Any]:
    return await go(asking(LEADING, agents={"talker": Foreign(error)}, hooks=hooks))


async def test_an_api_error_of_an_agent_is_no_bug() -> None:
    hooks = Hooks()
    result = await told_of(RateLimitError("slow down"), hooks)
    assert result.output == {"code": "rate_limit", "message": "slow down"}
    assert hooks.told == []


async def test_what_the_headers_of_an_api_error_say_is_the_floor_of_the_wait() -> None:
    clock = FakeClock()
    more = "retry: {max_attempts: 2, backoff_s: 1}\ntransitions: [{to: done}]"
    agents = {"talker": Foreign(RateLimitError("slow down"))}
    result = await go(asking(more, agents=agents, clock=clock))
    assert result.success
    assert 45 <= clock.sleeps[0] <= 67.5


@pytest.mark.parametrize(
    "error",
    [ValueError("timeout must be positive"), KeyError("x"), TypeError("no api key given")],
    ids=repr,
)
async def test_a_bug_of_an_agent_is_one_whatever_its_text_says(error: Exception) -> None:
    hooks = Hooks()
    result = await told_of(error, hooks)
    assert result.output["code"] == "internal"
    assert hooks.told == [error]


def failing(error: Exception, hooks: Hooks) -> MachineEngine:
    def work() -> None:
        raise error

    states = """
    a: {type: initial, function: work, on_error: z, transitions: [{to: z}]}
    z: {type: final, output: {code: result.error.code, may_pass: result.error.retryable}}
    """
    return engine_of(states, functions={"work": work}, hooks=hooks)


@pytest.mark.parametrize(
    ("error", "code", "may_pass"),
    [
        (ToolError("te", code="conflict", retryable=False), "conflict", False),
        (ToolError("te"), "internal", True),
        (ConnectionResetError("reset"), "server_error", True),
        (RateLimitError("slow down"), "rate_limit", True),
    ],
    ids=repr,
)
async def test_a_failure_that_a_function_names_keeps_its_code(
    error: Exception, code: str, may_pass: bool
) -> None:
    hooks = Hooks()
    result = await go(failing(error, hooks))
    assert result.output == {"code": code, "may_pass": may_pass}
    assert hooks.told == []


def test_what_windows_an_api_error_carries_is_known() -> None:
    result = read_failure(RateLimitError("slow down"))
    assert result is not None
    assert result.rate_limit is not None
    assert (result.rate_limit.limited, result.rate_limit.retry_after) == (True, 45)


async def test_a_limit_that_tells_its_windows_alone_is_the_floor_of_the_wait() -> None:
    class Busy:
        calls = 0

        async def execute(self, input: Any, context: Any) -> Any:
            self.calls += 1
            window = {"name": "requests_per_minute", "remaining": 0, "limit": 3, "resets_in": 45}
            error = {"code": "rate_limit", "message": "m", "status_code": 429}
            limits = {"limited": True, "windows": [window]}
            return "done" if self.calls > 1 else {"error": error, "rate_limit": limits}

    clock = FakeClock()
    more = "retry: {max_attempts: 3, backoff_s: 1}\ntransitions: [{to: done}]"
    result = await go(asking(more, agents={"talker": Busy()}, clock=clock))
    assert result.success
    assert 45 <= clock.sleeps[0] <= 67.5


async def test_a_tool_error_of_a_node_keeps_its_code_and_is_tried_again_where_it_may_be() -> None:
    errors = [ToolError("later", code="conflict"), ToolError("no", code="gone", retryable=False)]

    def work(board: Any) -> None:
        raise errors.pop(0)

    result = await walk(Graph({"a": Node(work, attempts=5)}), clock=FakeClock())
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("gone", "no")
    assert errors == []
