"""A help desk: customers chat with an agent, staff approve its refunds, and a kill loses nothing.

    .venv/bin/python examples/helpdesk/service.py [--port 8400] [--model openai:gpt-5]

It prints a link for two customers and one for staff. Ask for your money back, approve it as staff;
kill the server with `kill -9` while the bank pays, and start it again with the same command. Nobody
knows then whether the money went out, so the inbox asks staff, who look at the bank: /bank. With
their answer the run goes on by itself, and the money is paid once.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from desk import make_app
from orders import Shop
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from upshot import App
from upshot.serve import User

PAGE = Path(__file__).parent / "page"
COOKIE = "helpdesk_user"
USERS = {
    "ada": User("ada"),
    "ben": User("ben"),
    "sam": User("sam", roles=("view", "answer", "operate")),
}


def who(request: HTTPConnection) -> User | None:
    """Who asks. A shop's own sign-in stands here; this cookie only tells three people apart."""
    return USERS.get(request.cookies.get(COOKIE, ""))


def make_service(app: App, shop: Shop) -> Starlette:
    """The customers' pages, with the site of the App under ``/desk``."""
    site = app.asgi(user=who)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with site.router.lifespan_context(site):
            yield

    async def page(request: Request) -> Response:
        user = who(request)
        if user is not None and user.roles:
            return RedirectResponse("/desk/inbox")
        return FileResponse(PAGE / "chat.html" if user else PAGE / "sign-in.html")

    async def sign_in(request: Request) -> Response:
        response = RedirectResponse("/")
        response.set_cookie(COOKIE, request.path_params["name"], httponly=True, samesite="strict")
        return response

    async def mine(request: Request) -> Response:
        user = who(request)
        if user is None:
            return JSONResponse({"error": "sign in first"}, 401)
        orders = [one._asdict() for one in shop.orders_of(user.id)]
        return JSONResponse({"name": user.id, "chat": f"desk-{user.id}", "orders": orders})

    async def bank(request: Request) -> Response:
        user = who(request)
        if user is None or not user.roles:
            return JSONResponse({"error": "the bank is shown to staff"}, 403)
        return JSONResponse({"paid back": shop.refunds()})

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", page),
            Route("/as/{name}", sign_in),
            Route("/mine", mine),
            Route("/bank", bank),
            Mount("/page", StaticFiles(directory=PAGE)),
            Mount("/desk", site),
        ],
    )


def main() -> None:
    """Serve the desk until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A help desk for customers and staff.")
    parser.add_argument("--port", type=int, default=8400)
    parser.add_argument("--data", type=Path, default=Path(".upshot/helpdesk"), metavar="FOLDER")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="in place of the script")
    parser.add_argument(
        "--bank-s",
        type=float,
        nargs=2,
        default=(0.8, 0.8),
        metavar="SECONDS",
        help="how long the bank takes before and after it has paid",
    )
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    app = make_app(given.data, model=given.model, bank_s=tuple(given.bank_s))
    url = f"http://127.0.0.1:{given.port}"
    print(f"customers   {url}/as/ada\n            {url}/as/ben")
    print(
        f"staff       {url}/as/sam\n\nCtrl-C ends it; so does kill -9: nothing is lost.", flush=True
    )
    service = make_service(app, Shop(given.data / "shop.db"))
    uvicorn.run(service, port=given.port, log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
