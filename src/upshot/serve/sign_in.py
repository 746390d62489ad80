"""Sign-in for the user who started the server: a link that works once, then a cookie."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from upshot.contract.user import User
from upshot.serve.permissions import NoUser

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request

OWNER = User("owner", ("owner",))
_COOKIE = "upshot"
_LIFE_S = 30 * 24 * 3600
_KEY_BYTES = 32


class OwnerSignIn:
    """Signs in the visitor who has the link that the server printed, as owner.

    The cookie is signed with a key of this account of the machine, so it survives a restart. A new
    key voids all cookies signed before, even in a running server.

    Args:
        path: The file of the key.

    Raises:
        OSError: The key can be neither read nor written.

    Attributes:
        path: The link, without the address of the server.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = read_key(path)
        self._key_at = _changed_at(path)
        self._token = secrets.token_urlsafe(24)
        self.path: str = f"/sign-in?token={self._token}"
        self.route: Route = Route("/sign-in", self._sign_in)

    def user(self, request: HTTPConnection) -> User | None:
        """Return the owner if the request has the cookie."""
        until, _, mark = request.cookies.get(_COOKIE, "").partition(".")
        # Only what was signed here is parsed as a number.
        is_ours = hmac.compare_digest(mark.encode(), self._mark(until).encode())
        return OWNER if is_ours and int(until) >= time.time() else None

    async def _sign_in(self, request: Request) -> Response:
        given = request.query_params.get("token", "")
        if not self._token or not hmac.compare_digest(given.encode(), self._token.encode()):
            raise NoUser(
                "this link is not the one that the server printed, or it was used before: "
                "start the server again for another one"
            )
        self._token = ""
        until = str(int(time.time()) + _LIFE_S)
        response = RedirectResponse(request.scope.get("root_path", "") + "/", 303)
        response.set_cookie(
            _COOKIE,
            f"{until}.{self._mark(until)}",
            max_age=_LIFE_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    def _mark(self, until: str) -> str:
        if (changed := _changed_at(self._path)) != self._key_at:
            with suppress(OSError):
                self._key, self._key_at = read_key(self._path), changed
        return hmac.new(self._key, until.encode(), hashlib.sha256).hexdigest()


def read_key(path: Path) -> bytes:
    """Return the key in a file that only this account can read; create it if there is none.

    Raises:
        OSError: It can be neither read nor written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
    return path.read_bytes()


def renew_key(path: Path) -> None:
    """Replace the key in a file, so that every cookie signed before is void.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    read_key(fresh)
    fresh.replace(path)


def _changed_at(path: Path) -> tuple[int, int]:
    """Return which file is at *path* and when it last changed; (0, 0) if there is none."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_ino, found.st_mtime_ns


def key_path() -> Path:
    """Return the path of this account's key."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "upshot" / "serve.key"
