"""The simulator as its users hold it."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from typing import Any

import aiohttp
import pytest

from tests.processes import start_python
from tests.sim.client import USER, Client
from upshot.errors import Misuse
from upshot.sim import Simulator, serve_forever


async def test_it_listens_inside_the_block_only(client):
    async with Simulator(["x"]) as sim:
        port = sim.port
        assert sim.base_url == f"http://127.0.0.1:{port}/v1"
        assert (await client.chat(sim)).status == 200
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(f"http://127.0.0.1:{port}/v1/messages", {})
    with pytest.raises(Misuse, match="not running"):
        _ = sim.base_url


async def test_it_can_be_entered_again_but_not_twice(client):
    sim = Simulator(["x"])
    async with sim:
        with pytest.raises(Misuse, match="already"):
            await sim.__aenter__()
    async with sim:
        assert (await client.chat(sim)).status == 200


async def test_requests_are_kept_without_their_keys(client):
    async with Simulator(["x"]) as sim:
        headers = {"authorization": "Bearer sk-secret", "x-api-key": "sk-secret", "x-odd": "1"}
        asked = {"model": "m", "messages": [USER]}
        await client.post(f"{sim.base_url}/chat/completions?key=sk-secret", asked, headers=headers)
        (request,) = sim.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.body == asked
    assert request.headers["x-odd"] == "1"
    assert "sk-secret" not in repr(request)


async def test_a_body_that_is_no_json_is_kept_as_bytes(client):
    async with Simulator(["x"]) as sim:
        async with client.session.post(f"{sim.base_url}/messages", data=b"{nope"):
            pass
        assert (sim.requests[0].raw, sim.requests[0].body) == (b"{nope", None)


async def test_only_the_latest_requests_are_kept(client):
    async with Simulator(["x"], keep_requests=1) as sim:
        await client.chat(sim, model="a")
        await client.chat(sim, model="b")
        assert [request.body["model"] for request in sim.requests] == ["b"]


async def test_all_requests_are_kept_where_no_number_limits_them(client):
    async with Simulator(["x"], keep_requests=None) as sim:
        for model in "ab":
            await client.chat(sim, model=model)
        assert [request.body["model"] for request in sim.requests] == ["a", "b"]


async def test_without_a_script_everything_is_ok(client):
    async with Simulator() as sim:
        heard = await client.chat(sim, [USER, {"role": "assistant", "content": "hi"}, USER])
    assert heard.body["choices"][0]["message"]["content"] == "ok"


async def test_a_conversation_of_many_megabytes_is_read(client):
    asked = {"model": "m", "messages": [{"role": "user", "content": "y" * 3_000_000}]}
    data = io.BytesIO(json.dumps(asked).encode())
    async with Simulator(["x"]) as sim:
        async with client.session.post(f"{sim.base_url}/chat/completions", data=data) as response:
            assert response.status == 200
        assert sim.requests[0].body == asked


async def test_many_requests_are_served_at_the_same_time():
    connector = aiohttp.TCPConnector(limit=0)
    scenario = {"replies": ["x"], "latency": {"first_byte_ms": 30}}
    async with aiohttp.ClientSession(connector=connector) as session, Simulator(scenario) as sim:
        heard = await asyncio.gather(*(Client(session).chat(sim) for _ in range(200)))
    assert {one.status for one in heard} == {200}
    assert len({one.headers["x-request-id"] for one in heard}) == 200


async def test_a_port_in_use_is_misuse():
    async with Simulator() as sim:
        with pytest.raises(Misuse, match="the port is in use"):
            await Simulator(port=sim.port).__aenter__()


@pytest.mark.parametrize("limits", [{"requests_per_minute": 0}, {"rpm": 3}])
def test_bad_limits_are_misuse(limits):
    with pytest.raises(Misuse, match="limits are not valid"):
        Simulator(limits=limits)


async def test_serving_forever_ends_by_cancellation(client):
    started: asyncio.Future[Simulator] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve_forever(["x"], on_start=started.set_result))
    assert (await client.chat(await started)).status == 200
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


def test_importing_it_does_not_load_aiohttp_or_yaml():
    code = "import sys, upshot.sim; print({'aiohttp', 'yaml'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"


def _started(*arguments: str) -> subprocess.Popen[str]:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return start_python("-m", "upshot.sim", *arguments, **pipes)


async def test_it_runs_as_a_process_of_its_own(client, tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"replies": ["from a file"]}))
    with _started("--scenario", str(path)) as process:
        assert process.stdout is not None
        base_url = (await asyncio.to_thread(process.stdout.readline)).strip()
        heard = await client.post(
            f"{base_url}/chat/completions", {"model": "m", "messages": [USER]}
        )
        process.terminate()
        _, errors = await asyncio.to_thread(process.communicate)
    assert heard.body["choices"][0]["message"]["content"] == "from a file"
    assert (process.returncode, errors) == (0, "")


def test_a_process_with_a_bad_scenario_says_so_in_one_line(tmp_path):
    path = tmp_path / "s.json"
    path.write_text("{}")
    with _started("--scenario", str(path)) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert errors == f"{path}: the whole: a scenario needs `replies` (or `models` with replies)\n"
