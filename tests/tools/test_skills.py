"""Agent Skills: folders that a model reads through a tool when it needs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upshot import Agent, Misuse, Policy, ScriptedModel, Toolbox, ToolCall, load_skills, run
from upshot.tools.skills import MAX_FILE_BYTES

HEADER = "---\nname: {name}\ndescription: Pays money back. Use it for refunds.\n---\n"
Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """A function that writes a skill, and returns its folder."""

    def write(name: str, text: str | None = None, **files: str | bytes) -> Path:
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        main = HEADER.format(name=name) + "\n# How\nAsk first.\n" if text is None else text
        (folder / "SKILL.md").write_text(main, "utf-8")
        for file, body in files.items():
            path = folder / file.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(body if isinstance(body, bytes) else body.encode())
        return folder

    return write


async def read(items: Any, **arguments: Any) -> Any:
    """The outcome of one call of the tool."""
    (outcome,) = await Toolbox([items]).dispatch([ToolCall("c", "read_skill", arguments)])
    return outcome


async def test_the_model_sees_descriptions_and_reads_the_rest_on_demand(put: Put) -> None:
    folder = put("refunds", rules_md="Under 50 euros.", scripts__pay_py="print()", _env="KEY=1")
    put("returns")
    skills = load_skills(folder.parent)
    (tool,) = skills
    assert "- refunds: Pays money back. Use it for refunds.\n- returns:" in tool.spec.description
    assert tool.spec.parameters["properties"]["skill"]["enum"] == ["refunds", "returns"]
    assert tool.declared_effect == "read"
    text = "# How\nAsk first.\n\nOther files:\n- rules.md\n- scripts/pay.py"
    assert (await read(skills, skill="refunds")).output == {"result": text}
    assert (await read(skills, skill="returns")).output == {"result": "# How\nAsk first."}
    assert (await read(skills, skill="refunds", file="rules.md")).output == {
        "result": "Under 50 euros."
    }


async def test_a_run_reads_a_skill_through_its_gates(put: Put) -> None:
    calls = [ToolCall("c", "read_skill", {"skill": "refunds"}), "Done."]
    agent = Agent[Any]("clerk", model=ScriptedModel(calls * 2), tools=[load_skills(put("refunds"))])
    result = await run(agent, "Refund it.")
    assert result.tool_outcomes[0].effect == "none"
    denied = await run(agent, "Refund it.", policy=Policy(deny=["read_skill"]))
    assert denied.tool_outcomes[0].kind == "tool_denied"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("../other/SKILL.md", "has no file"),
        ("/etc/hostname", "has no file"),
        ("out.md", "has no file"),
        ("rule.md", "did you mean 'rules.md'?"),
        ("", "has no file"),
        ("logo.png", "is not text (4 bytes)"),
        ("big.txt", "too many to read"),
    ],
)
async def test_only_texts_of_the_skill_are_read(put: Put, file: str, words: str) -> None:
    folder = put("refunds", rules_md="r", logo_png=b"\x89PNG", big_txt="x" * (MAX_FILE_BYTES + 1))
    put("other")
    (folder.parent / "secret.md").write_text("key", "utf-8")
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    outcome = await read(load_skills(folder), skill="refunds", file=file)
    assert outcome.kind == "tool_failure"
    assert words in outcome.error


async def test_another_skill_is_refused_before_the_call(put: Put) -> None:
    outcome = await read(load_skills(put("refunds")), skill="refund")
    assert (outcome.kind, outcome.reason) == ("tool_denied", "validation")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Only text", "name is None: start the file with a header (---)"),
        ("", "name is None"),
        ("---\nname: Re Funds\n---\n", "name is 'Re Funds'"),
        ("---\nname: other\ndescription: x\n---\n", "the folder must have the same name"),
        ("---\nname: refunds\n---\n", "description is None"),
        ("---\nname: refunds\ndescription: ''\n---\n", "description is ''"),
        ("---\nname: refunds\ndescription: " + "x" * 1025 + "\n---\n", "in 1 to 1,024 characters"),
        ("---\nname: refunds\ndescription: a: b\n---\n", "SKILL.md, line 3, column 15: this"),
    ],
)
def test_a_faulty_skill_is_named_when_it_is_loaded(put: Put, text: str, words: str) -> None:
    folder = put("refunds", text)
    with pytest.raises(Misuse) as caught:
        load_skills(folder)
    assert words in str(caught.value)


def test_folders_are_checked(put: Put, tmp_path: Path) -> None:
    folder = put("refunds")
    with pytest.raises(Misuse, match="both have the skill 'refunds'"):
        load_skills(folder, folder.parent)
    with pytest.raises(Misuse, match="is no folder"):
        load_skills(tmp_path / "none")
    with pytest.raises(Misuse, match="has no skill"):
        load_skills(tmp_path)
    with pytest.raises(Misuse, match="needs a folder"):
        load_skills()
