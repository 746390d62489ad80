"""Four servers that others wrote: good calls, bad arguments, a killed and a stalled server."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from upshot import Agent, ScriptedModel, run
from upshot.contract import (
    Effect,
    Status,
    ToolDenied,
    ToolFailure,
    ToolProgress,
    ToolSettled,
    ToolTimeout,
)
from upshot.tools import Toolbox, ToolCall, open_mcp

BIN = Path(sys.executable).parent
NODE = BIN.parent / "node" / "node_modules" / ".bin"
# The environment has a Node of its own where the machine has none.
PATH = f"{BIN}{os.pathsep}{os.environ['PATH']}"

needs_node = pytest.mark.skipif(
    shutil.which("node", path=PATH) is None or not NODE.is_dir(), reason="make mcp installs it"
)


@pytest.fixture
def repository(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git("add", "a.txt")
    git("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "Begin")
    (tmp_path / "a.txt").write_text("two\n")
    return tmp_path


def time_server(**options):
    return open_mcp("time", command=[str(BIN / "mcp-server-time")], **options)


def git_server(repository, **options):
    command = [str(BIN / "mcp-server-git"), "--repository", str(repository)]
    return open_mcp("git", command=command, **options)


def everything(**options):
    command = [str(NODE / "mcp-server-everything"), "stdio"]
    return open_mcp("all", command=command, env=_node_path(), **options)


def filesystem(folder, **options):
    command = [str(NODE / "mcp-server-filesystem"), str(folder)]
    return open_mcp("fs", command=command, env=_node_path(), **options)


def _node_path():
    return {"PATH": PATH}


async def one(tools, name, arguments=None, **options):
    (outcome,) = await Toolbox(tools, **options).dispatch([ToolCall("c", name, arguments or {})])
    return outcome


def servers():
    """The processes that this one started, their pids by what started them."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    lines = [line.split(None, 1) for line in found.splitlines()]
    return [int(pid) for pid, command in lines if "mcp-server" in command]


# Good calls


async def test_the_time_is_told():
    async with time_server(trusted=True) as tools:
        assert {tool.name for tool in tools} == {"time_get_current_time", "time_convert_time"}
        outcome = await one(tools, "time_get_current_time", {"timezone": "UTC"})
    assert "UTC" in str(outcome.output)


async def test_a_repository_is_read_and_written(repository):
    async with git_server(repository, trusted=True) as tools:
        status = await one(tools, "git_git_status", {"repo_path": str(repository)})
        added = {"repo_path": str(repository), "files": ["a.txt"]}
        outcome = await one(tools, "git_git_add", added, approve=lambda call: True)
    assert "a.txt" in status.output["result"]
    assert outcome.effect == Effect.APPLIED


@needs_node
async def test_files_are_written_and_read(tmp_path):
    path = str(tmp_path / "note.txt")
    async with filesystem(tmp_path, trusted=True) as tools:
        kept = {"path": path, "content": "words"}
        await one(tools, "fs_write_file", kept, approve=lambda call: True)
        outcome = await one(tools, "fs_read_text_file", {"path": path})
    assert Path(path).read_text() == "words"
    assert (outcome.output, outcome.effect) == ({"content": "words"}, Effect.NONE)


@needs_node
async def test_every_kind_of_content_is_read():
    events = []
    async with everything() as tools:
        echo = await one(tools, "all_echo", {"message": "hello"})
        image = await one(tools, "all_get-tiny-image")
        weather = await one(tools, "all_get-structured-content", {"location": "New York"})
        long = {"duration": 0.2, "steps": 2}
        await one(tools, "all_trigger-long-running-operation", long, emit=events.append)
    assert "hello" in echo.output["result"]
    assert "image" in [part["kind"] for part in image.output["result"]]
    assert "temperature" in weather.output
    assert [event for event in events if isinstance(event, ToolProgress)]


async def test_an_agent_uses_two_servers(repository):
    async with time_server() as clock, git_server(repository) as git:
        calls = [
            ToolCall("1", "time_get_current_time", {"timezone": "UTC"}),
            ToolCall("2", "git_git_status", {"repo_path": str(repository)}),
        ]
        agent = Agent("a", model=ScriptedModel([calls, "done"]), tools=[clock, git])
        result = await run(agent, "Go")
    assert (result.status, len(result.tool_outcomes)) == (Status.COMPLETED, 2)


# Bad arguments


async def test_arguments_against_the_schema_are_denied():
    async with time_server() as tools:
        outcome = await one(tools, "time_get_current_time", {"zone": 1})
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "validation"


async def test_what_only_the_server_knows_to_be_wrong_is_a_failure():
    async with time_server(trusted=True) as tools:
        outcome = await one(tools, "time_get_current_time", {"timezone": "Middle/Earth"})
    assert isinstance(outcome, ToolFailure)
    assert "Middle/Earth" in outcome.error


@needs_node
async def test_a_path_outside_is_refused_by_the_server(tmp_path):
    async with filesystem(tmp_path, trusted=True) as tools:
        outcome = await one(tools, "fs_read_text_file", {"path": "/etc/hostname"})
    assert isinstance(outcome, ToolFailure)
    assert "denied" in outcome.error.lower()


# A killed server


async def test_a_killed_server_is_started_anew(repository):
    async with git_server(repository, trusted=True) as tools:
        (pid,) = servers()
        os.kill(pid, signal.SIGKILL)
        outcome = await one(tools, "git_git_status", {"repo_path": str(repository)})
        assert servers() != [pid]
    assert "a.txt" in outcome.output["result"]
    assert servers() == []


@needs_node
async def test_a_server_killed_during_a_write_leaves_it_unknown():
    async with everything() as tools:
        is_under_way = asyncio.Event()

        def note(event):
            if isinstance(event, ToolProgress):
                is_under_way.set()

        box = Toolbox(tools, emit=note)
        long = {"duration": 30, "steps": 3000}
        call = ToolCall("c", "all_trigger-long-running-operation", long)
        task = asyncio.create_task(box.dispatch([call]))
        await is_under_way.wait()
        (pid,) = servers()
        os.kill(pid, signal.SIGKILL)
        (outcome,) = await task
        after = await one(tools, "all_echo", {"message": "hello"})
    assert (outcome.code, outcome.effect) == ("connection_lost", Effect.UNKNOWN)
    assert "hello" in after.output["result"]


# A stalled server


async def test_a_stalled_server_holds_up_nobody(repository):
    async with time_server(trusted=True) as clock, git_server(repository, trusted=True) as git:
        pids = servers()
        stalled = await _pid_of("mcp-server-time", pids)
        os.kill(stalled, signal.SIGSTOP)
        quick = clock["get_current_time"].but(timeout_s=3)
        settled = []

        def note(event):
            if isinstance(event, ToolSettled):
                settled.append(event.record.call_id)

        calls = [
            ToolCall("1", quick.name, {"timezone": "UTC"}),
            ToolCall("2", "git_git_status", {"repo_path": str(repository)}),
        ]
        late, done = await Toolbox([quick, git], emit=note).dispatch(calls)
    assert isinstance(late, ToolTimeout)
    assert "a.txt" in done.output["result"]
    assert settled == ["2", "1"]
    assert servers() == []


async def _pid_of(name, pids):
    for pid in pids:
        if name in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise AssertionError(f"{name} does not run")


RESEARCH = ("all_simulate-research-query", {"topic": "python", "ambiguous": True})


@needs_node
async def test_a_call_that_a_server_of_2025_works_on_as_a_task_tells_how_far_it_is():
    told = []

    def tell(event):
        if isinstance(event, ToolProgress):
            told.append(event.text)

    async with everything() as tools:
        done = await one(tools, RESEARCH[0], {"topic": "tea"}, emit=tell)
    assert "Research Report: tea" in done.output["result"]
    assert {"Gathering sources...", "Generating report..."} <= {*told}


@needs_node
@pytest.mark.parametrize(
    ("answer", "said"),
    [({"interpretation": "snake"}, "python (snake)"), (None, "User cancelled")],
)
async def test_a_task_of_2025_asks_as_any_call_does(answer, said):
    async with everything(elicit=lambda question: answer) as tools:
        done = await one(tools, *RESEARCH)
    assert said in done.output["result"]
