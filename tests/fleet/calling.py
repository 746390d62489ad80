"""A process that makes model calls: ``python calling.py HOW BASE_URL JOURNAL CALLS``.

It says "ready" when it could begin, begins at a line of its input, and says of each call how it
ended. HOW is "pacer", "retry", "quota", or "litellm" for the router of that package.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

MODEL = "gpt-4o-mini"
TEXT = "Say something about the number {:06d}."
CAP_USD = 1
CALLERS = 4


def say(word: str) -> None:
    print(word, flush=True)


async def begun() -> None:
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)


async def of_upshot(how: str, base_url: str, place: str, calls: int) -> None:
    from upshot import (
        Agent,
        ModelSettings,
        Pacer,
        Quota,
        Retry,
        ScriptedModel,
        open_journal,
        resolve,
        run,
        start,
    )
    from upshot.models import Price

    price = Price(input_per_mtok=5, output_per_mtok=15)
    model = resolve(
        f"openai:{MODEL}", base_url=base_url, api_key="k", prices={f"openai:{MODEL}": price}
    )
    settings = ModelSettings(max_tokens=100)
    retry = Retry(max_tries=40, max_wait_s=120) if how == "retry" else None
    agent = Agent("a", model=model, settings=settings, retry=retry)
    async with open_journal(place) as journal:
        options: dict[str, Any] = {"journal": journal}
        if how == "pacer":
            options["pacer"] = Pacer(max_wait_s=600)
        if how == "quota":
            options["quotas"] = [Quota("cap", max_cost_usd=CAP_USD)]
        turn = asyncio.Semaphore(CALLERS if how == "quota" else calls)

        async def one(number: int) -> None:
            async with turn:
                text = TEXT.format(number)
                if how != "quota":
                    result: Any = await run(agent, text, **options)
                else:
                    async with start(agent, text, **options) as live:
                        async for _ in live:
                            pass
                        result = await live.result()
            say("ok" if result.success else str(result.error.code))

        # What is loaded at the first call is no part of the figures.

        await run(agent, "Hi", model=ScriptedModel(["ok"]), journal=journal)
        await begun()
        await asyncio.gather(*(one(number) for number in range(calls)))


async def of_litellm(base_url: str, calls: int) -> None:
    made: Any = importlib.import_module("litellm")
    given = {"model": f"openai/{MODEL}", "api_base": base_url, "api_key": "k"}
    router = made.Router(
        model_list=[{"model_name": "m", "litellm_params": given}], num_retries=40, timeout=600
    )

    async def one(number: int) -> None:
        messages = [{"role": "user", "content": TEXT.format(number)}]
        try:
            await router.acompletion(model="m", messages=messages, max_tokens=100)
        except Exception as error:
            # It is the other's, and may raise anything.
            say(type(error).__name__)
        else:
            say("ok")

    await begun()
    await asyncio.gather(*(one(number) for number in range(calls)))


def main(how: str, base_url: str, place: str, calls: int) -> None:
    if how == "litellm":
        asyncio.run(of_litellm(base_url, calls))
    else:
        asyncio.run(of_upshot(how, base_url, place, calls))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
