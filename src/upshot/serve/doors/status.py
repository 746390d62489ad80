"""``/health``, ``/ready`` and ``/metrics`` of a site, for monitors.

The first two have nothing of a run in them, so anyone may read them. ``/metrics`` names agents,
tools and models and what they cost: it is for users who see the runs of all. ``upshot serve
--status`` has all three on a port of their own, where nobody signs in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from upshot.fleet.status import METRICS_TYPE, NEEDS_EXTRA
from upshot.serve.permissions import Refused, may_use_lab
from upshot.serve.site import Site, to_json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute


def routes(site: Site) -> list[BaseRoute]:
    """Return the routes of this door."""

    async def health(_: Request) -> Response:
        is_healthy, body = await site.status.healthy()
        return to_json(body, 200 if is_healthy else 503)

    async def ready(_: Request) -> Response:
        is_ready, body = await site.status.ready()
        return to_json(body, 200 if is_ready else 503)

    async def metrics(request: Request) -> Response:
        if not may_use_lab(await site.user(request)):
            raise Refused("metrics are of the runs of all users: that needs the role view")
        text = await site.status.metrics()
        if text is None:
            return to_json({"error": NEEDS_EXTRA}, 501)
        return Response(text, media_type=METRICS_TYPE)

    paths = {"/health": health, "/ready": ready, "/metrics": metrics}
    return [Route(path, handler) for path, handler in paths.items()]


@asynccontextmanager
async def lifespan(site: Site) -> AsyncGenerator[None]:
    """Count what happens while the site serves."""
    with site.status:
        yield
