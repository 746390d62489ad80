"""Access tokens that an OpenID provider of others issues, at a gateway that verifies them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from subprocess import DEVNULL, PIPE

from tests.gateway.kit import Place, serving
from tests.gateway.test_fronts import owners_of_effects
from tests.protocols_real.node import NODE, PACKAGES, needs_node
from upshot import Agent, OAuth, ScriptedModel, ToolCall, open_mcp, run
from upshot.gateway import read_config, serve_http

pytestmark = needs_node


async def test_a_client_of_a_certified_provider_makes_a_call(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    script = str(Path(__file__).parent / "issuer.mjs")
    issuer = await asyncio.create_subprocess_exec(
        NODE, script, str(PACKAGES), url, stdout=PIPE, stderr=DEVNULL
    )
    try:
        assert issuer.stdout is not None
        address = (await issuer.stdout.readline()).decode().strip()
        auth = OAuth(
            grant="client_credentials",
            client_id="desk",
            client_secret="of-the-desk",
            issuer=address,
        )
        async with Place(tmp_path).opened() as place:
            place.write(oauth={"resource": url, "servers": [address], "scopes": ["refunds"]})
            async with (
                serve_http(read_config(str(place.file)), "", []) as app,
                serving(app, listening=listening),
                open_mcp("shop", url=url, auth=auth) as shop,
            ):
                call = ToolCall("c", "shop_refund", {"order_id": "7"})
                agent = Agent("a", model=ScriptedModel([call, "Done."]), tools=[shop])
                result = await run(agent, "Refund order 7.")
            assert result.tool_outcomes[0].output == {"result": "re_7"}
            assert await owners_of_effects(place) == [("desk", "")]
    finally:
        issuer.kill()
        await issuer.wait()
