"""URLs of journals in PostgreSQL; needs no driver, so that any message can name one."""

from __future__ import annotations

import math
import re
from urllib.parse import unquote

from upshot.errors import Misuse

SCHEMES = ("postgresql", "postgres")

_IN_AUTHORITY = re.compile(r"(?<=://)([^:/?#]*):([^?#]*)@")
_IN_QUERY = re.compile(r"([?&])password=([^&#]*)&?")
# Parameters of a URL that are upshot's, not the driver's.
_OWN = re.compile(r"([?&])(listen|patience)=([^&#]*)&?")
_PATIENCE_S = 60.0


def is_url(where: str) -> bool:
    """Whether *where* is the URL of a journal in PostgreSQL."""
    scheme, mark, _ = where.partition("://")
    return bool(mark) and scheme in SCHEMES


def safe_place(where: str) -> str:
    """Return a journal's place for display: the URL of a server without its password."""
    if not is_url(where):
        return where
    where = _OWN.sub(r"\1", where)
    return _IN_QUERY.sub(r"\1", _IN_AUTHORITY.sub(r"\1@", where)).rstrip("?&")


def split_url(url: str) -> tuple[str, str, float]:
    """Split a URL into the driver's URL, the one to listen at, and the patience in seconds.

    The last two come from ``listen=`` and ``patience=``; the defaults are the URL itself and 60.

    Raises:
        Misuse: *patience* is not a number of seconds.
    """
    own = {name: unquote(value) for _, name, value in _OWN.findall(url)}
    bare = _OWN.sub(r"\1", url).rstrip("?&") if own else url
    try:
        patience_s = float(own.get("patience", _PATIENCE_S))
    except ValueError:
        patience_s = math.nan
    if not patience_s >= 0:
        raise Misuse(f"patience={own['patience']} of a journal's URL: give seconds, 0 or more")
    return bare, own.get("listen", bare), patience_s


def without_password(text: str, url: str) -> str:
    """Remove the password from *text*, in which a driver may quote parts of *url*."""
    for pattern in (_IN_AUTHORITY, _IN_QUERY):
        for found in pattern.finditer(url):
            password = found.group(2)
            text = text.replace(password, "***") if password else text
    return text
