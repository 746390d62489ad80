"""The examples of the property tests are the same wherever and whenever `make test` runs."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CODE = f"VALUES = {[f'odd {n}' for n in range(500)]}\n"


def drawn() -> list[str]:
    seen: list[str] = []

    @settings(settings.get_profile("upshot"), max_examples=300)
    @given(st.text())
    def look(text: str) -> None:
        seen.append(text)

    look()
    return seen


@pytest.mark.skipif(not settings.default.derandomize, reason="a search takes others")
def test_they_do_not_hang_on_the_modules_that_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn()
    (tmp_path / "full_of_constants.py").write_text(CODE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_constants")
    assert drawn() == before
