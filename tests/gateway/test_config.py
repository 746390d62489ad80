"""What the file of a gateway may say, and what is told of mistakes in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from upshot.errors import Misuse
from upshot.gateway import read_config

SHOP: dict[str, Any] = {"command": "shop-mcp"}


def read(path: Path, **given: Any) -> Any:
    file = path / "desk.yml"
    file.write_text(yaml.safe_dump({"servers": {"shop": SHOP}, **given}))
    return read_config(str(file))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tool": {}}, "the file has no key 'tool': did you mean 'tools'?"),
        ({"default": "allow"}, "default is str: give read, ask or deny"),
        ({"wait_s": -1}, "wait_s is -1: give seconds, at least 0"),
        ({"servers": {}}, "servers is empty: name a server"),
        ({"servers": {"a b": SHOP}}, "a server is called by 1 to 32 of"),
        ({"servers": {"shop": {}}}, "servers.shop has neither: give command or url"),
        ({"servers": {"shop": {"url": "ftp://x"}}}, "servers.shop: open_mcp(url="),
        ({"servers": {"shop": {"cmd": "x"}}}, "servers.shop has no key 'cmd'"),
        (
            {"servers": {"shop": {"command": "x", "env": {"A": "${UNSET_HERE}"}}}},
            "servers.shop.env.A needs the variable UNSET_HERE, which is not set",
        ),
        ({"tools": {"refund": {}}}, "name a server and its tool, such as shop/refund"),
        ({"tools": {"shop/x": {"efect": "read"}}}, "no key 'efect': did you mean 'effect'?"),
        ({"tools": {"shop/x": {"effect": "none"}}}, "effect is str: give read, write or"),
        ({"tools": {"shop/x": {"approval": "a >"}}}, "tools.shop/x.approval: the condition 'a >'"),
        ({"tools": {"shop/x": {"deny": 5}}}, "deny is 5: give true, false or a condition"),
        ({"tools": {"shop/x": {"ask": "me"}}}, "ask is str: give user or staff"),
        (
            {"tools": {"shop/x": {"verify": {"tool": "mall/y", "found": "true"}}}},
            "verify.tool is 'mall/y': name a tool of shop",
        ),
        ({"policy": {"denies": ["x"]}}, "policy has no key 'denies'"),
        ({"sign_in": "a.py:who", "user_header": "x"}, "has both sign_in and user_header"),
        ({"sign_in": "a.py:who", "oauth": {"resource": "https://a"}}, "oauth has '': give a URL"),
    ],
    ids=str,
)
def test_a_mistake_is_told_in_one_sentence(tmp_path: Path, given: dict[str, Any], said: str):
    with pytest.raises(Misuse) as found:
        read(tmp_path, **given)
    assert str(found.value).startswith(str(tmp_path)) and said in str(found.value)


def test_variables_come_from_the_environment_and_are_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHOP_KEY", "sk-of-the-shop")
    shop = {"url": "https://shop.example", "headers": {"Authorization": "Bearer ${SHOP_KEY}"}}
    config = read(tmp_path, servers={"shop": shop}, secrets=["${SHOP_KEY}-too"])
    assert config.servers["shop"].server.headers["Authorization"] == "Bearer sk-of-the-shop"
    assert config.masks is not None
    assert config.masks.mask_text("sk-of-the-shop") == "***"
    assert config.masks.mask_text("sk-of-the-shop-too") == "***"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("desk.db", "{folder}/desk.db"), ("/var/desk.db", "/var/desk.db"), ("memory:", "memory:")],
)
def test_a_journal_stands_beside_the_file(tmp_path: Path, given: str, meant: str):
    assert read(tmp_path, journal=given).journal == meant.format(folder=tmp_path)


def test_the_url_of_a_journal_stays(tmp_path: Path):
    assert read(tmp_path, journal="postgresql://db/desk").journal == "postgresql://db/desk"
