"""What the DBOS driver is given; ``tests/dbos_real`` has runs that DBOS drives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.processes import run_python
from upshot import Agent, App, Misuse, ScriptedModel
from upshot.fleet import dbos_driver


def app() -> App:
    return App([Agent("a", model=ScriptedModel([]))], journal="memory:")


def output_of(program: str) -> str:
    return run_python("-c", program, text=True, check=True).stdout


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['dbos'] = None\n"
        "from upshot import Agent, App\n"
        "from upshot.fleet import dbos_driver\n"
        "try: dbos_driver(App([Agent('a', model='openai:m')]))\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
    )
    assert output_of(program) == (
        "Misuse a DBOS driver needs an extra: pip install 'upshot-agents[dbos]', "
        "or in a clone pip install -e '.[dbos]'\n"
    )


@pytest.mark.slow
def test_importing_it_loads_no_dbos() -> None:
    program = (
        "import sys; from upshot.fleet import dbos_driver\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('dbos', 'sqlalchemy')])"
    )
    assert output_of(program) == "[]\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queue": 7}, "queue must be a name, got 7"),
        ({"queue": ""}, "needs the name of a queue and a worker_concurrency of at least 1, got ''"),
        ({"worker_concurrency": True}, "worker_concurrency must be a whole number from 1"),
        ({"worker_concurrency": 0}, "a worker_concurrency of at least 1, got 'upshot' and 0"),
    ],
)
def test_a_wrong_argument_is_misuse(given: Any, message: str) -> None:
    with pytest.raises(Misuse, match=message):
        dbos_driver(app(), **given)


def test_anything_but_an_app_is_misuse() -> None:
    wrong: Any = Agent("a", model=ScriptedModel([]))
    with pytest.raises(Misuse, match="app of a DBOS driver must be an App"):
        dbos_driver(wrong)


@pytest.mark.slow
def test_a_driver_that_is_entered_before_the_launch_says_what_to_call() -> None:
    program = (
        "import asyncio\n"
        "from dbos import DBOS\n"
        "from upshot import Agent, App\n"
        "from upshot.fleet import dbos_driver\n"
        "async def main():\n"
        "    app = App([Agent('a', model='openai:m')], journal='memory:')\n"
        "    try:\n"
        "        async with dbos_driver(app): pass\n"
        "    except ValueError as error: print(type(error).__name__, error)\n"
        "asyncio.run(main())\n"
    )
    assert "dbos_driver(...) and DBOS.launch(), in this order" in output_of(program)
