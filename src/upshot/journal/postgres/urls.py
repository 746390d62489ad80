"""URLs of journals in PostgreSQL; needs no driver, so that any message can name one."""

from __future__ import annotations

import re

SCHEMES = ("postgresql", "postgres")

_IN_AUTHORITY = re.compile(r"(?<=://)([^:/?#]*):([^?#]*)@")
_IN_QUERY = re.compile(r"([?&])password=([^&#]*)&?")


def is_url(where: str) -> bool:
    """Whether *where* is the URL of a journal in PostgreSQL."""
    scheme, mark, _ = where.partition("://")
    return bool(mark) and scheme in SCHEMES


def shown_place(where: str) -> str:
    """A journal's place as it may be shown: the URL of a server without its password."""
    if not is_url(where):
        return where
    return _IN_QUERY.sub(r"\1", _IN_AUTHORITY.sub(r"\1@", where)).rstrip("?&")


def without_password(text: str, url: str) -> str:
    """*text*, in which a driver may quote *url* or parts of it, without the password."""
    for pattern in (_IN_AUTHORITY, _IN_QUERY):
        for found in pattern.finditer(url):
            password = found.group(2)
            text = text.replace(password, "***") if password else text
    return text
