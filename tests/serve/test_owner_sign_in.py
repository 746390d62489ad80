"""The link that signs the owner in."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.serve.kit import listening
from upshot import Agent, App, ScriptedModel
from upshot.serve.guard import OwnerSignIn


async def test_a_link_whose_sign_in_could_not_be_stored_is_still_good(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    app = App([Agent("a", model=ScriptedModel(["Hello."]))], journal=str(path))
    sign_in = OwnerSignIn(tmp_path / "key")
    async with listening(app.asgi(user=sign_in)) as client:
        await app.open()
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("ALTER TABLE audit RENAME TO away")
        assert (await client.get(sign_in.path))[0] == 503
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("ALTER TABLE away RENAME TO audit")
        assert (await client.get(sign_in.path))[0] == 200
        assert (await client.get(sign_in.path))[0] == 401
