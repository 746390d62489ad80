"""``upshot schema``: the contract for programs in other languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

FOLDER = Path(__file__).resolve().parents[2] / "schema"


@pytest.mark.parametrize(
    ("form", "file"),
    [
        ("--json-schema", "upshot.schema.json"),
        ("--typescript", "upshot.d.ts"),
        ("--execution-result", "execution-result.schema.json"),
        ("--machine", "machine.schema.json"),
        ("--lab-report", "lab-report.schema.json"),
    ],
)
def test_a_form_is_printed_as_it_is_in_the_repository(
    command: Command, form: str, file: str
) -> None:
    assert command("schema", form) == (0, (FOLDER / file).read_text("utf-8"), "")


@pytest.mark.parametrize("forms", [(), ("--json-schema", "--typescript")])
def test_one_form_is_asked_for_at_a_time(command: Command, forms: tuple[str, ...]) -> None:
    code, out, err = command("schema", *forms)
    assert (code, out) == (2, "")
    forms = "--json-schema, --typescript, --execution-result, --machine and --lab-report"
    assert f"give one of {forms}" in err
