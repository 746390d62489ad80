"""Prompts in files: filled in, and named in the log by file and digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import log_of
from upshot import (
    Agent,
    Approve,
    Misuse,
    ModelStarted,
    Prompt,
    Request,
    ScriptedModel,
    ToolCall,
    load_prompt,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.md").write_text("You help $user.\n\nAnswer as {json}.\n", "utf-8")
    return "desk.md"


async def prompts(journal: MemoryJournal, run_id: str) -> list[str]:
    return [one.prompt for one in await log_of(journal, run_id) if isinstance(one, ModelStarted)]


async def test_the_log_names_the_file_and_its_digest(file: str) -> None:
    journal, model = MemoryJournal(), ScriptedModel(["Hello."])
    prompt = load_prompt(file, user="Ann")
    agent = Agent("desk", model=model, instructions=prompt)
    await run(agent, Request("?", run_id="r"), journal=journal)
    assert model.calls[0].system == "You help Ann.\n\nAnswer as {json}."
    assert await prompts(journal, "r") == [prompt.version]
    assert prompt.version == f"desk.md@{load_prompt(file).digest}"
    assert agent.spec().instructions == prompt.text


async def test_a_function_fills_it_in_for_each_run(file: str) -> None:
    template = load_prompt(file)

    def greet(run: Any) -> Prompt:
        return template.fill(user=run.attributes["user"])

    journal, model = MemoryJournal(), ScriptedModel(["Hello.", "Hello."])
    agent = Agent("desk", model=model, instructions=greet)
    for user in ("Ann", "Bob"):
        options: Any = {"journal": journal, "attributes": {"user": user}}
        await run(agent, Request("?", run_id=user), **options)
    assert [one.system for one in model.calls if one.system] == [
        "You help Ann.\n\nAnswer as {json}.",
        "You help Bob.\n\nAnswer as {json}.",
    ]
    assert await prompts(journal, "Ann") == await prompts(journal, "Bob") == [template.version]


async def test_instructions_that_a_decider_changed_come_from_no_file(file: str) -> None:
    class Louder:
        def before_model(self, info: Any, request: Any) -> Any:
            from msgspec.structs import replace

            return replace(request, system=f"{request.system}!")

    journal = MemoryJournal()
    prompt = load_prompt(file, user="Ann")
    agent = Agent("desk", model=ScriptedModel(["Hello."]), instructions=prompt, deciders=[Louder()])
    await run(agent, Request("?", run_id="r"), journal=journal)
    assert await prompts(journal, "r") == [""]


@tool(approval=True)
def ask() -> str:
    """Ask."""
    return "yes"


async def test_a_resumed_run_names_the_file_it_is_resumed_with(file: str) -> None:
    def agent() -> Agent[Any]:
        replies = [[ToolCall("c", "ask")], "Done."] if not parked else ["Done."]
        prompt = load_prompt(file, user="Ann")
        return Agent("desk", model=ScriptedModel(replies), instructions=prompt, tools=[ask])

    parked: list[Any] = []
    journal = MemoryJournal()
    parked.append(await run(agent(), Request("?", run_id="r"), journal=journal))
    Path(file).write_text("You help $user well.", "utf-8")
    await resume("r", agent(), journal=journal, answers=[Approve("c")])
    first, second = await prompts(journal, "r")
    assert first != second == load_prompt(file).version


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("Hi $user.", {"usr": "Ann"}, "needs a value for $user: it names user"),
        ("Hi $user.", {"user": "Ann", "zone": 1}, "has no $zone to fill in: it names user"),
        ("Hi.", {"user": "Ann"}, "has no $user to fill in: it names none"),
        ("It costs $5 for $user.", {"user": "Ann"}, 'has a "$" without a name: write "$$"'),
    ],
    ids=["missing", "unknown", "names none", "a bare sign"],
)
def test_values_must_match_the_names(tmp_path: Path, text: str, values: Any, said: str) -> None:
    (tmp_path / "p.md").write_text(text, "utf-8")
    with pytest.raises(Misuse) as caught:
        load_prompt(tmp_path / "p.md", **values)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b" \n", "is empty"),
        (b"\xff\xfe\xff", "is not UTF-8 text"),
        (None, "cannot be read: No such"),
    ],
    ids=["empty", "not text", "missing"],
)
def test_a_file_that_cannot_be_one_is_refused(
    tmp_path: Path, data: bytes | None, said: str
) -> None:
    if data is not None:
        (tmp_path / "p.md").write_bytes(data)
    with pytest.raises(Misuse, match=said):
        load_prompt(tmp_path / "p.md")
