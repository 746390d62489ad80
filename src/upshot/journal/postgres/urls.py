"""URLs of journals in PostgreSQL; needs no driver, so that any message can name one."""

from __future__ import annotations

import re
from urllib.parse import unquote

SCHEMES = ("postgresql", "postgres")

_IN_AUTHORITY = re.compile(r"(?<=://)([^:/?#]*):([^?#]*)@")
_IN_QUERY = re.compile(r"([?&])password=([^&#]*)&?")
_LISTEN = re.compile(r"([?&])listen=([^&#]*)&?")


def is_url(where: str) -> bool:
    """Whether *where* is the URL of a journal in PostgreSQL."""
    scheme, mark, _ = where.partition("://")
    return bool(mark) and scheme in SCHEMES


def shown_place(where: str) -> str:
    """A journal's place as it may be shown: the URL of a server without its password."""
    if not is_url(where):
        return where
    where, _ = split_listen(where)
    return _IN_QUERY.sub(r"\1", _IN_AUTHORITY.sub(r"\1@", where)).rstrip("?&")


def split_listen(url: str) -> tuple[str, str]:
    """A URL without its ``listen=``, and what that says: where to listen, else the URL itself."""
    found = _LISTEN.search(url)
    bare = _LISTEN.sub(r"\1", url).rstrip("?&") if found else url
    return bare, unquote(found[2]) if found else bare


def without_password(text: str, url: str) -> str:
    """*text*, in which a driver may quote *url* or parts of it, without the password."""
    for pattern in (_IN_AUTHORITY, _IN_QUERY):
        for found in pattern.finditer(url):
            password = found.group(2)
            text = text.replace(password, "***") if password else text
    return text
