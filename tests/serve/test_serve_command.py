"""`upshot serve`: the link that signs in, its cookie, and how it begins and ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import aiohttp
import pytest

from tests.processes import start_python, watched

PROGRAM = """
import upshot
agent = upshot.Agent("clerk", model='scripted:["Hello."]')
"""

Begin = Callable[..., Any]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts `upshot serve desk.py` with further arguments."""
    (tmp_path / "desk.py").write_text(PROGRAM, "utf-8")
    begun: list[Any] = []

    def start(*more: str, really: bool = False) -> Any:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        options: Any = {"cwd": tmp_path, "env": env, "stderr": PIPE, "text": True}
        given = ["-m", "upshot", "serve", "desk.py", *more]
        if really:
            process = watched(subprocess.Popen([sys.executable, *given], **options))
        else:
            process = start_python(*given, **options)
        begun.append(process)
        return process

    yield start
    for process in begun:
        with process:
            process.kill()


def link_of(process: Any) -> str:
    while line := process.stderr.readline():
        if found := re.fullmatch(r"(http://127\.0\.0\.1:\d+/sign-in\?token=\S+)\n", line):
            return found[1]
    raise AssertionError("it printed no link")


@pytest.mark.slow("interpreter")
@pytest.mark.parametrize("really", [False, True], ids=["fork", "interpreter"])
async def test_the_link_works_once_and_the_cookie_outlives_a_restart(
    begin: Begin, *, really: bool
) -> None:
    first = begin("--port", "0", really=really)
    link = link_of(first)
    site = link.partition("/sign-in")[0]
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        async with browser.get(f"{site}/api/me") as response:
            assert response.status == 401
        async with browser.get(f"{site}/sign-in?token=wrong") as response:
            assert response.status == 401 and "not the one" in (await response.json())["error"]
        async with browser.get(link) as response:
            assert response.status == 200
            cookie = response.history[0].headers["set-cookie"].lower()
            assert "httponly" in cookie and "samesite=strict" in cookie
        async with browser.get(link) as response:
            assert response.status == 401
        # A person sees a page.
        accept = {"accept": "text/html"}
        async with browser.get(link, headers=accept) as response:
            assert response.status == 401 and "signed in already" in await response.text()
        async with aiohttp.request("GET", link, headers=accept) as response:
            page = await response.text()
            assert response.content_type == "text/html" and "it was used before" in page
        async with browser.get(f"{site}/api/me") as response:
            me = await response.json()
            assert (me["user"], me["agents"][0]["id"]) == (
                {"id": "owner", "roles": ["owner"]},
                "clerk",
            )
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 0
        second = begin("--port", site.rpartition(":")[2])
        link_of(second)
        async with browser.get(f"{site}/api/me") as response:
            assert response.status == 200
        new = {"agent": "clerk", "text": "Hello?"}
        async with browser.post(f"{site}/api/runs", json=new, headers={"x-upshot": "1"}) as posted:
            run_id = (await posted.json())["run_id"]
        # It ends by itself once the run has.
        async with browser.get(f"{site}/api/runs/{run_id}/events") as stream:
            text = await stream.text()
        assert "run_settled" in text and '"Hello."' in text
    second.send_signal(signal.SIGINT)
    assert second.wait(20) == 0


async def test_no_cookie_of_ones_own_and_no_unknown_host_gets_in(begin: Begin) -> None:
    process = begin("--port", "0", "--console-url", "https://desk.example/console")
    site = link_of(process).partition("/sign-in")[0]
    async with aiohttp.ClientSession() as browser:
        for cookie in ("1.", "\u00e9.\u00e9", f"{'9' * 5000}.a", "9999999999.0", "..", "a.b"):
            asked = {"cookie": f"upshot={cookie}"}
            async with browser.get(f"{site}/api/me", headers=asked) as response:
                assert response.status == 401, cookie
                assert "nobody is signed in" in (await response.json())["error"]
        for host, status in (("desk.example", 401), ("other.example", 421)):
            async with browser.get(f"{site}/api/me", headers={"host": host}) as response:
                assert response.status == status
    process.terminate()
    assert process.wait(20) == 0


async def test_a_stream_that_is_watched_does_not_hold_the_end_up(begin: Begin) -> None:
    process = begin("--port", "0", "--no-work")
    link = link_of(process)
    site = link.partition("/sign-in")[0]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(link):
            pass
        new = {"agent": "clerk", "text": "Hello?"}
        async with browser.post(f"{site}/api/runs", json=new, headers={"x-upshot": "1"}) as posted:
            run_id = (await posted.json())["run_id"]
        async with browser.get(f"{site}/api/runs/{run_id}/events") as stream:
            assert stream.status == 200
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0


def test_what_is_wrong_is_one_line(begin: Begin, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = begin("--port", port)
        assert process.wait(20) == 2
        (line,) = process.stderr.read().splitlines()
    assert f"127.0.0.1:{port} cannot be listened on" in line and "--port" in line
    (tmp_path / "text.db").write_text("no journal at all" * 99)
    process = begin("--port", "0", "--journal", "text.db")
    assert process.wait(20) == 2
    (line,) = process.stderr.read().splitlines()
    assert "text.db" in line


async def test_a_sign_in_can_be_ended_in_every_browser(begin: Begin, tmp_path: Path) -> None:
    first = begin("--port", "0")
    link = link_of(first)
    site = link.partition("/sign-in")[0]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.get(link):
            pass
        async with browser.get(f"{site}/api/me") as response:
            assert response.status == 200
        second = begin("--port", "0", "--sign-out")
        other = link_of(second).partition("/sign-in")[0]
        # The first server goes on, and knows the browser no more; nor does the second one.
        for place in (site, other):
            async with browser.get(f"{place}/api/me") as response:
                assert response.status == 401, place
        assert [path.name for path in (tmp_path / "upshot").iterdir()] == ["serve.key"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--client-id", "c"], "--client-id and --role need a provider: give --oidc ISSUER"),
        (["--oidc", "https://op.example", "--client-id", "c"], "--oidc needs a --role ROLE=GROUP"),
        (["--oidc", "https://op.example", "--role", "ops"], "--role is 'ops': give ROLE=GROUP"),
        (["--oidc", "http://op.example", "--client-id", "c", "--role", "view=*"], "of https"),
        (["--oidc", "https://op.example", "--role", "view=*"], "client_id"),
    ],
    ids=str,
)
def test_a_provider_that_cannot_be_used_is_one_sentence(
    begin: Begin, words: list[str], message: str
) -> None:
    process = begin("--port", "0", *words)
    err = process.stderr.read()
    assert process.wait() == 2 and message in " ".join(err.split()), err
