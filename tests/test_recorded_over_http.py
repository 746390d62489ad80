"""Recorded exchanges, served by the simulator and asked for by models, are read as what they are.

Skipped where the recordings are absent; see the fixture ``corpus``.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.wire.exchange import NOW, compare, load
from upshot.models import Endpoint, HttpModel, Provider, aclose_transports
from upshot.sim import Recorded, Simulator

ENOUGH = 0.99
SURFACES = ["chat", "messages", "responses", "generate", "converse", "invoke"]


class EarlyClock:
    """Stands before every recording, so that no reset has passed."""

    def now(self):
        return datetime.fromtimestamp(NOW, UTC)

    def monotonic(self):
        return 0.0

    async def sleep(self, delay_s):
        raise AssertionError("reading a reply waits for nothing")


def recorded(item):
    answer = item["response"]
    return Recorded(answer["status"] or 200, answer["headers"] or {}, item["bytes"], key=item["id"])


async def ask(model, item):
    if item["mode"] not in ("sse", "aws-eventstream"):
        return await model.call("Hello")
    *_, response = [piece async for piece in model.stream("Hello")]
    return response


@pytest.mark.parametrize("surface", SURFACES)
async def test_facts_survive_the_whole_way_from_bytes_to_response(corpus, surface):
    items = [pair for pair in load(corpus, surface) if pair[0]["trust"] == "recorded"]
    wrong, right, total = Counter(), 0, 0
    async with Simulator.recorded([recorded(item) for item, _ in items], pieces=3) as sim:
        for item, facts in items:
            provider = Provider(item["provider"], sim.base_url_for(item["id"]), surface=surface)
            model = HttpModel("m", Endpoint(provider), clock=EarlyClock())
            for name, holds in compare(item, facts, await ask(model, item)):
                total += 1
                right += holds
                if not holds:
                    wrong[f"{name} of {item['id']}"] += 1
    await aclose_transports()
    print(f"{surface}: {right} of {total} facts of {len(items)} exchanges")
    assert len(items) > 20
    assert right >= ENOUGH * total, f"{right} of {total}; wrong: {', '.join(wrong)}"
