"""The YAML on the page about machines: it loads, and fits the published schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from upshot import load_machine

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "machine.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCHEMA = json.loads((ROOT / "schema" / "machine.schema.json").read_text())


@pytest.mark.parametrize("text", BLOCKS)
def test_a_machine_of_the_page_loads_without_a_warning(text: str) -> None:
    machine = load_machine(text)
    assert not machine.warnings
    jsonschema_rs.validate(SCHEMA, machine.data)


def test_the_picture_of_the_page_is_that_of_its_machine() -> None:
    assert load_machine(BLOCKS[0]).to_mermaid() in PAGE
