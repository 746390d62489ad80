"""The service by which Restate drives an App, without a server of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from upshot import Agent, App, Misuse, ScriptedModel
from upshot.fleet import restate_service


def app() -> App:
    return App([Agent("a", model=ScriptedModel(["Done."]))], journal="memory:")


def said_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['restate'] = None\n"
        "from upshot import Agent, App\n"
        "from upshot.fleet import restate_service\n"
        "try: restate_service(App([Agent('a', model='openai:m')]))\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
    )
    assert said_by(program) == (
        "Misuse a Restate service needs an extra: pip install 'upshot-agents[restate]', "
        "or in a clone pip install -e '.[restate]'\n"
    )


def test_importing_it_loads_no_restate() -> None:
    program = (
        "import sys; from upshot.fleet import App, restate_service\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('restate', 'aiohttp')])"
    )
    assert said_by(program) == "[]\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, r"ingress must be a URL .* or a list of them, got 7"),
        ("127.0.0.1:8080", "ingress is a URL such as .*, or a list of them, got '127.0.0.1:8080'"),
        ([7], "ingress is a URL such as .*, or a list of them, got 7"),
        ([], "ingress is an empty list: give a URL"),
    ],
    ids=["number", "no-scheme", "no-text", "none"],
)
def test_an_ingress_that_is_no_url_is_misuse(given: Any, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        restate_service(app(), ingress=given)


def test_what_is_no_app_is_misuse() -> None:
    wrong: Any = Agent("a", model=ScriptedModel([]))
    with pytest.raises(Misuse, match="app of a Restate service must be an App"):
        restate_service(wrong)


async def test_a_journal_that_cannot_be_opened_keeps_the_service_from_starting() -> None:
    service = restate_service(App([Agent("a", model=ScriptedModel([]))]))
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(event: Any) -> None:
        told.append(event)

    await asyncio.wait_for(service({"type": "lifespan"}, receive, send), 10)
    (failed,) = told
    assert failed["type"] == "lifespan.startup.failed"
    assert "the App has no journal" in failed["message"]
