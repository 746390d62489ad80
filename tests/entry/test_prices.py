"""Prices of one's own reach a model that is given by name."""

from __future__ import annotations

import pytest

from upshot import Agent, Budget, ErrorCode, Misuse, Price, run

AGENT = Agent("a", model="openai:ours", budget=Budget(max_cost_usd=1))  # pyright: ignore[reportArgumentType]


async def test_a_cost_limit_needs_a_price() -> None:
    with pytest.raises(Misuse, match="the price of openai:ours is unknown"):
        await run(AGENT, "Hello")


async def test_a_price_of_ones_own_is_one() -> None:
    prices = {"openai:ours": Price(input_per_mtok="1", output_per_mtok="2")}
    result = await run(AGENT, "Hello", prices=prices)
    # It came as far as asking for the key.
    assert result.error is not None
    assert result.error.code == ErrorCode.AUTH_ERROR
