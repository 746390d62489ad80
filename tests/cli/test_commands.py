"""The command from its arguments to its exit code."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

import upshot
from tests.cli.conftest import Command
from upshot.cli.commands import upshot as commands
from upshot.journal import open_journal

AGENT = """\
import upshot

@upshot.tool(effect="read")
def double(number: int) -> dict:
    print("a tool talks")
    return {"double": 2 * number}

agent = upshot.Agent("doubler", tools=[double])
"""
CALLS = 'scripted:[{"name": "double", "arguments": {"number": 4}}, "It is 8."]'
FAILS = 'scripted:[{"error": {"code": "content_filter", "message": "not this"}}]'
SCENARIO = {
    "replies": [
        {"text": "Let me see. ", "tool_calls": [{"name": "double", "arguments": {"number": 21}}]},
        {"text": "It is **{{ results.double.double }}**."},
    ]
}


@pytest.fixture(autouse=True)
def files(command: Command) -> None:
    """What the commands are about, in the folder that `command` works in."""
    Path("agent.py").write_text(AGENT, "utf-8")
    Path("scenario.json").write_text(json.dumps(SCENARIO), "utf-8")


def test_the_answer_is_all_that_a_pipe_gets(command: Command) -> None:
    assert command("run", "agent.py:agent", "Double 4.", "--model", CALLS) == (
        0,
        "It is 8.\n",
        "a tool talks\n",
    )


def test_a_scenario_is_played_over_http(command: Command) -> None:
    code, out, _ = command("run", "agent.py", "Double 21.", "--model", "sim:scenario.json")
    assert (code, out) == (0, "It is **42**.\n")


def test_text_is_printed_as_it_comes(command: Command) -> None:
    code, out, _ = command("run", "agent.py", "hi", "--model", "sim:scenario.json", "--stream")
    assert (code, out) == (0, "Let me see. \nIt is **42**.\n")


def test_json_is_the_whole_result_and_nothing_else(command: Command) -> None:
    code, out, _ = command("run", "agent.py", "hi", "--model", CALLS, "--json")
    result = upshot.decode(out, upshot.AgentResult)
    assert (code, result.content, result.tools_used) == (0, "It is 8.", ("double",))
    assert out.count("\n") == 1


def test_the_request_can_come_from_standard_input(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Wie groß?".encode())))
    command("run", "agent.py", "-", "--model", CALLS)
    (run,) = json.loads(command("runs", "--json")[1])
    assert run["request"] == "Wie groß?"


def test_progress_can_be_had_line_by_line(command: Command) -> None:
    _, _, err = command("run", "agent.py", "hi", "--model", CALLS, "--progress", "lines")
    lines = err.splitlines()
    assert lines[0].startswith(" run-")
    assert any("double" in line and "result" in line for line in lines)
    assert lines[-1].startswith("completed · ")
    assert "cost unknown" in lines[-1]


def test_a_failed_run_says_why_and_exits_with_1(command: Command) -> None:
    code, out, err = command("run", "agent.py", "hi", "--model", FAILS)
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "failed: content_filter: not this"
    assert "upshot show run-" in err


def test_a_run_can_be_shown_and_listed_afterwards(command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS, "--run-id", "run-1")
    code, out, _ = command("show", "last")
    assert code == 0
    assert out.splitlines()[0] == "run-1  doubler  completed"
    assert "█" in out
    assert out.endswith("It is 8.\n")
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = command("runs", "--status", "completed")
    assert (code, out.splitlines()[1].split()[:3]) == (0, ["run-1", "completed", "doubler"])


def test_the_runs_that_are_listed_can_be_chosen(command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS, "--run-id", "run-1")

    def listed(*options: str) -> list[str]:
        _, out, _ = command("runs", "--json", *options)
        return [run["run_id"] for run in json.loads(out)]

    today = ("--since", "2026-01-01", "--until", "2999-01-01")
    for options in (("--tool", "double"), ("--text", "IT IS 8"), today, ("--effect", "none")):
        assert listed(*options) == ["run-1"]
    for options in (("--tool", "halve"), ("--owner", "ann"), ("--until", "2026-01-01")):
        assert listed(*options) == []
    code, _, err = command("runs", "--since", "monday")
    assert code == 2 and "--since is 'monday': give a moment" in err
    code, _, err = command("runs", "--conversations", "--tool", "double")
    assert code == 2 and "--tool filters runs: leave it out with --conversations" in err


def test_a_run_shown_as_json_is_its_result_with_a_timeline(command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS, "--run-id", "run-1")
    _, out, _ = command("show", "run-1", "--json")
    assert upshot.decode(out, upshot.AgentResult).run_id == "run-1"
    assert [step["name"] for step in json.loads(out)["timeline"]] == [
        "model 1",
        "double",
        "model 2",
    ]


def test_resuming_a_run_that_has_ended_prints_its_result(command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS, "--run-id", "run-1")
    before = Path(".upshot/runs.db").stat().st_size
    assert command("resume", "run-1") == (0, "It is 8.\n", "")
    assert Path(".upshot/runs.db").stat().st_size == before


def test_no_runs_are_told_without_a_table(command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS)
    assert command("runs", "--status", "aborted") == (
        0,
        "",
        ".upshot/runs.db has no runs that are aborted\n",
    )


def test_an_agent_file_finds_its_tools_in_a_python_file(command: Command) -> None:
    Path("bot.json").write_text('{"id": "bot", "tools": ["double"]}', "utf-8")
    assert command("run", "bot.json", "hi", "--tools", "agent.py", "--model", CALLS)[:2] == (
        0,
        "It is 8.\n",
    )


def test_no_log_is_kept_where_none_is_wanted(command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS, "--journal", "memory:")
    assert not Path(".upshot").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "gone.py:agent", "hi"], "upshot: there is no file gone.py"),
        (["run", "agent.py:nobody", "hi"], "agent.py has no agent 'nobody': there is agent"),
        (["run", "agent.py", "hi"], "agent 'doubler' names no model: give --model"),
        (["run", "agent.py", "hi", "--model", "openai:gpt-5"], "there is no key for openai:gpt-5"),
        (["run", "agent.py", "hi", "--model", "opnai:gpt-5"], "did you mean openai:gpt-5?"),
        (["run", "agent.py", "hi", "--model", "gpt-5"], "'gpt-5' names no model"),
        (["run", "agent.py", "hi", "--model", "sim:gone.json"], "gone.json cannot be read"),
        (["run", "agent.py", "hi", "--model", "sim:agent.py"], "column 1: this is not JSON: "),
        (["run", "agent.py", " ", "--model", CALLS], "the request is empty"),
        (["run", "agent.py"], "the request is empty: say what you want"),
        (["run"], "Missing argument 'FILE.py:AGENT' (see upshot run --help)"),
        (["run", "agent.py", "hi", "--stream", "--json"], "--stream and --json exclude each other"),
        (["run", "agent.py", "hi", "--modle", "x"], "No such option '--modle'"),
        (["run", "bot.json", "hi", "--model", CALLS], "'bot' names tools: say which file has"),
        (
            ["run", "bot.json", "hi", "--model", CALLS, "--tools", "agent.py"],
            "there is no tool 'nowhere'; known are: double",
        ),
        (["resume", "run-1"], "there is no journal .upshot/runs.db"),
        (["show", "run-1", "--journal", "gone.db"], "there is no journal gone.db"),
        (["show", "run-1", "--journal", "agent.py"], "agent.py"),
        (["runs", "--status", "done"], "'done' is not one of"),
        (["sim", "--scenario", "gone.json"], "gone.json cannot be read"),
        (["sim", "--port", "70000"], "70000"),
        (["perform"], "there is no command 'perform'"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_wrong_input_is_one_sentence_and_exits_with_2(
    arguments: list[str], sentence: str, command: Command
) -> None:
    Path("bot.json").write_text('{"id": "bot", "tools": ["nowhere"]}', "utf-8")
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("upshot: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("wanted", ["run-2", "other"])
def test_a_run_that_is_not_there_is_told_with_the_nearest(wanted: str, command: Command) -> None:
    command("run", "agent.py", "hi", "--model", CALLS, "--run-id", "run-1")
    code, _, err = command("show", wanted)
    assert (code, err.count("\n")) == (2, 1)
    assert "run-1" in err


def leave_run(journal: str, **launch: str) -> None:
    """Leave a run in a journal as a process does that dies at once."""

    async def leave() -> None:
        async with open_journal(journal) as log:
            await log.claim("run-9")
            started = upshot.RunStarted(
                run_id="run-9",
                seq=1,
                request=upshot.Request("Double 4."),
                options={"launch": dict(launch)} if launch else {},
            )
            log.append(started)
            await log.durable("run-9", 1)

    asyncio.run(leave())


def test_a_run_that_the_command_did_not_start_needs_its_agent(command: Command) -> None:
    leave_run("own.db")
    for name in ("resume", "replay"):
        code, _, err = command(name, "run-9", "--journal", "own.db")
        assert code == 2
        assert "after its id, such as run-9 FILE.py:agent" in err
    again = ("resume", "run-9", "agent.py", "--model", CALLS, "--journal", "own.db")
    assert command(*again)[:2] == (0, "It is 8.\n")


def test_a_run_goes_on_with_another_model_where_one_is_named(command: Command) -> None:
    leave_run("own.db", file="agent.py", model="openai:gone", base_url="http://x", folder="gone")
    code, out, err = command("resume", "run-9", "--model", CALLS, "--journal", "own.db")
    assert (code, out) == (0, "It is 8.\n")
    assert "the folder gone of the run is gone" in err


def test_the_version_is_told(command: Command) -> None:
    code, out, _ = command("--version")
    assert code == 0
    assert out.startswith("upshot 0.")


def test_no_arguments_are_answered_with_help(command: Command) -> None:
    code, _, err = command()
    assert code == 2
    assert "Commands:" in err


@pytest.mark.parametrize("package", ["click", "rich"])
def test_a_missing_extra_is_told_in_one_sentence(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None; "
        "from upshot.cli import main; sys.exit(main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == (
        "upshot: the command needs an extra: pip install 'upshot-agents[cli]', "
        "or in a clone pip install -e '.[cli]'\n"
    )


@pytest.mark.parametrize("run_id", ["a b", "last", "-x", "a\n", "x" * 201])
def test_an_id_that_could_not_be_named_again_is_misuse(run_id: str, command: Command) -> None:
    code, _, err = command("run", "agent.py", "hi", "--model", CALLS, f"--run-id={run_id}")
    assert code == 2
    assert "--run-id" in err
    assert not Path(".upshot").exists()


def test_an_id_that_is_taken_says_what_to_type(command: Command) -> None:
    asked = ("run", "agent.py", "hi", "--model", CALLS, "--run-id", "r1", "--journal", "other.db")
    assert command(*asked)[0] == 0
    code, _, err = command(*asked)
    assert code == 2
    assert "already has a run r1: continue it, upshot resume r1 --journal other.db" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("rn",),
            "upshot: there is no command 'rn': did you mean run or runs? (see upshot --help)\n",
        ),
        (("zzz",), "upshot: there is no command 'zzz': there are approve, archive, audit, chat"),
        (("sim", "--port", "abc"), "abc is not a whole number from 0 to 65535"),
        (("sim", "--requests-per-minute", "0"), "0 is not a whole number from 1 on"),
        (("run", "agent.py", "hi", "--model", "sim:empty.json"), "the file is empty"),
        (("run", "agent.py", "hi", "--model", "scripted:empty.json"), "is empty"),
    ],
)
def test_what_is_wrong_is_said_in_words_for_people(
    arguments: tuple[str, ...], said: str, command: Command
) -> None:
    Path("empty.json").write_text("")
    code, _, err = command(*arguments)
    assert (code, len(err.splitlines())) == (2, 1)
    assert said in err


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "upshot", "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout[:9]) == (0, "upshot 0.")


def test_what_is_printed_for_people_is_json_too(command: Command) -> None:
    Path("two.py").write_text("import upshot\n\ngraph = upshot.Graph({'a': print, 'b': print})\n")
    assert json.loads(command("graph", "two.py", "--json")[1]).keys() == {"file", "mermaid"}
    typescript = json.loads(command("schema", "--typescript", "--json")[1])["typescript"]
    assert command("schema", "--typescript")[1] == typescript
    assert json.loads(command("schema", "--machine", "--json")[1])


@pytest.mark.parametrize("typed", [["run"], ["run", "--journal"], ["check"], ["resume", "run-1"]])
def test_a_shell_completes_files_where_one_is_wanted(typed: list[str]) -> None:
    completion = BashComplete(commands, {}, "upshot", "_UPSHOT_COMPLETE")
    (item,) = completion.get_completions(typed, "ag")
    assert (item.type, item.value) == ("file", "ag")
