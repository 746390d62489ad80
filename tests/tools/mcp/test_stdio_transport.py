"""Tool sets of a server that is a program."""

import asyncio
import os
import sys
import traceback
from pathlib import Path

import pytest

from tests.processes import LOADED
from upshot.contract import Effect, ToolArtifactReference, ToolFailure, ToolProgress, ToolTimeout
from upshot.errors import Misuse
from upshot.tools import Toolbox, ToolCall, open_mcp

SERVER = str(Path(__file__).with_name("server.py"))
NOISY, SILENT = ([sys.executable, SERVER, how] for how in ("noisy", "silent"))


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def small(log, *traits, **options):
    command = [sys.executable, "-S", SERVER, *traits]
    return open_mcp("s", command=command, env={**LOADED, "MCP_LOG": str(log)}, **options)


async def one(tools, name, arguments=None, **options):
    (outcome,) = await Toolbox(tools, **options).dispatch([ToolCall("c", name, arguments or {})])
    return outcome


async def test_tools_are_named_after_their_server(log):
    async with small(log) as tools:
        names = [tool.name for tool in tools]
    assert names[:3] == ["s_add", "s_note", "s_put"]


async def test_a_name_that_no_provider_takes_is_made_one(log):
    async with small(log, include=["drop*"]) as tools:
        (tool,) = tools
        outcome = await one(tools, tool.name, approve=lambda call: True)
    assert tool.name.startswith("s_drop_all_")
    assert outcome.output == {"result": "done"}


async def test_globs_choose_the_tools(log):
    async with small(log, include=["*d*"], exclude=["add", "drop.*"]) as tools:
        assert [tool.name for tool in tools] == ["s_die"]


async def test_a_glob_that_takes_nothing_is_misuse(log):
    with pytest.raises(Misuse, match=r"it has: add, note"):
        async with small(log, include=["nothing"]):
            pass


async def test_annotations_of_a_stranger_are_not_believed(log):
    async with small(log) as tools:
        told = {(tool.declared_effect, tool.idempotent, tool.trust) for tool in tools}
    assert told == {(Effect.WRITE, False, "untrusted")}


async def test_annotations_of_a_trusted_server_are_believed(log):
    async with small(log, trusted=True) as tools:
        effects = {tool.name: tool.effect for tool in tools}
        assert [tool.name for tool in tools if tool.idempotent] == ["s_put"]
    assert effects["s_add"] == Effect.READ
    assert effects["s_note"] == effects["s_put"] == Effect.WRITE
    assert Effect.DESTRUCTIVE in effects.values()


async def test_arguments_are_checked_before_the_server_sees_them(log):
    async with small(log) as tools:
        outcome = await one(tools, "s_add", {"a": "x", "b": 2})
    assert outcome.reason == "validation"
    assert "add" not in log.read_text().split()


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("text", {"result": "one\ntwo"}),
        ("json", {"result": '{"a": 1}'}),
        ("structured", {"a": 1}),
        ("wrapped", {"result": ["x", "y"]}),
        ("field", {"content": "words"}),
        ("beside", {"structured": {"a": 1}, "content": "in words"}),
        ("none", {"result": None}),
        (
            "image",
            {
                "result": [
                    {"kind": "text", "text": "see"},
                    {"kind": "image", "data": "iVBORw0KGgo=", "media_type": "image/png"},
                ]
            },
        ),
        (
            "resource",
            {
                "result": [
                    {
                        "kind": "data",
                        "data": {"uri": "a:1", "text": "t"},
                        "media_type": "text/plain",
                    },
                    {"kind": "file", "name": "two", "url": "a:2", "media_type": "text/html"},
                ]
            },
        ),
    ],
)
async def test_content_becomes_one_value_without_duplicates(log, kind, output):
    async with small(log) as tools:
        assert (await one(tools, "s_show", {"kind": kind})).output == output


async def test_an_error_of_the_tool_is_a_failure(log):
    async with small(log) as tools:
        outcome = await one(tools, "s_fail")
    assert isinstance(outcome, ToolFailure)
    assert (outcome.error, outcome.effect) == ("it is broken", Effect.UNKNOWN)


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        (-32700, Effect.NONE),
        (-32600, Effect.NONE),
        (-32601, Effect.NONE),
        (-32602, Effect.NONE),
        (-32603, Effect.UNKNOWN),
        (-32000, Effect.UNKNOWN),
    ],
)
async def test_only_a_call_that_was_refused_had_no_effect(log, code, effect):
    async with small(log) as tools:
        outcome = await one(tools, "s_refuse", {"code": code, "said": "will not do"})
        silent = await one(tools, "s_refuse", {"code": code, "said": ""})
    assert isinstance(outcome, ToolFailure)
    assert (outcome.error, outcome.effect) == ("will not do", effect)
    assert str(code) in silent.error
    assert log.read_text().split().count("start") == 1


async def test_an_answer_that_is_none_is_a_failure_whose_effect_nobody_knows(log):
    async with small(log) as tools:
        outcome = await one(tools, "s_show", {"kind": "strange"})
    assert isinstance(outcome, ToolFailure)
    assert outcome.effect == Effect.UNKNOWN


async def test_words_of_the_sdk_in_the_mouth_of_a_server_are_its_own(log):
    async with small(log) as tools:
        outcome = await one(tools, "s_refuse", {"code": -32600, "said": "Session terminated"})
    assert outcome.error == "Session terminated"
    assert log.read_text().split().count("start") == 1


async def test_progress_of_the_server_is_told(log):
    events = []
    async with small(log) as tools:
        await one(tools, "s_add", {"a": 1, "b": 2}, emit=events.append)
    told = [event for event in events if isinstance(event, ToolProgress)]
    assert [(event.text, event.data) for event in told] == [
        ("half", {"progress": 1, "total": 2}),
        ("1.5/2", {"progress": 1.5, "total": 2}),
        ("2", {"progress": 2, "total": None}),
    ]


async def test_a_read_is_sent_again_when_the_server_died(log):
    async with small(log, trusted=True) as tools:
        outcome = await one(tools, "s_look", {"how": "once"})
    assert outcome.output == {"result": "done"}
    assert log.read_text().split().count("look") == 2


async def test_a_read_that_the_server_dies_of_is_sent_twice_only(log):
    async with small(log, trusted=True) as tools:
        outcome = await one(tools, "s_look", {"how": "always"})
    assert (outcome.code, outcome.retryable, outcome.effect) == (
        "connection_lost",
        True,
        Effect.NONE,
    )
    assert log.read_text().split().count("look") == 2


async def test_a_write_that_may_be_repeated_is_sent_again_when_the_server_died(log):
    async with small(log, trusted=True) as tools:
        outcome = await one(tools, "s_put", {"text": "once"})
    assert outcome.output == {"result": "done"}
    assert log.read_text().split().count("put") == 2


async def test_a_write_whose_connection_broke_is_not_sent_again(log):
    async with small(log) as tools:
        outcome = await one(tools, "s_die", {"how": "once"})
        again = await one(tools, "s_note", {"text": "x"})
    assert (outcome.code, outcome.retryable, outcome.effect) == (
        "connection_lost",
        False,
        Effect.UNKNOWN,
    )
    assert again.output == {"result": "done"}
    assert log.read_text().split().count("die") == 1


async def test_a_stalled_server_times_out_and_holds_up_nobody(log):
    async with small(log) as stalled, small(log, trusted=True) as well:
        box = Toolbox([stalled["die"].but(timeout_s=0.05), well["add"].but(name="add")])
        calls = [
            ToolCall("1", "s_die", {"how": "stall"}),
            ToolCall("2", "add", {"a": 1, "b": 1}),
        ]
        late, done = await box.dispatch(calls)
    assert isinstance(late, ToolTimeout)
    assert (late.effect, done.output) == (Effect.UNKNOWN, {"result": 2})


async def test_a_cancelled_call_is_told_to_the_server(log):
    async with small(log) as tools:
        box = Toolbox(tools)
        task = asyncio.create_task(box.dispatch([ToolCall("c", "s_die", {"how": "stall"})]))
        while "stall" not in log.read_text().split():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "cancelled" in log.read_text().split()
    assert [record.effect for record in box.records] == [Effect.UNKNOWN]


async def test_a_tool_that_changed_is_not_called(log):
    async with small(log) as tools:
        await one(tools, "s_look", {"how": "change"})
        outcome = await one(tools, "s_note", {"text": "x"})
        other = await one(tools, "s_add", {"a": 1, "b": 2})
        assert tools.changed == {"s_note"}
    assert (outcome.code, outcome.effect) == ("tool_changed", Effect.NONE)
    assert other.output == {"result": 3}


async def test_calls_that_run_together_wait_for_the_look_at_what_changed(log):
    async with small(log) as tools:
        await one(tools, "s_look", {"how": "change"})
        outcomes = await asyncio.gather(*(one(tools, "s_note", {"text": "x"}) for _ in range(2)))
    assert [outcome.code for outcome in outcomes] == ["tool_changed"] * 2
    assert "note" not in log.read_text().split()


async def test_a_change_is_looked_at_though_nobody_waited_for_the_list(log):
    async with small(log) as tools:
        await one(tools, "s_look", {"how": "mute"})
        late = await one([tools["note"].but(timeout_s=0.05)], "s_note", {"text": "x"})
        outcome = await one(tools, "s_note", {"text": "x"})
    assert isinstance(late, ToolTimeout)
    assert outcome.code == "tool_changed"


async def test_nothing_is_called_of_a_server_that_does_not_list_its_tools_again(log):
    async with small(log) as tools:
        await one(tools, "s_look", {"how": "unlist"})
        refused = await one(tools, "s_note", {"text": "x"})
        outcome = await one(tools, "s_note", {"text": "x"})
    assert (refused.code, refused.effect, refused.retryable) == ("not_available", Effect.NONE, True)
    assert "not now" in refused.error
    assert (outcome.code, outcome.retryable) == ("tool_changed", False)


async def test_a_server_that_does_not_start_again_cannot_be_reached(log):
    async with small(log) as tools:
        lost = await one(tools, "s_die", {"how": "move"})
        outcome = await one(tools, "s_note", {"text": "x"})
    assert (lost.code, lost.effect) == ("connection_lost", Effect.UNKNOWN)
    assert (outcome.code, outcome.effect, outcome.retryable) == ("not_available", Effect.NONE, True)
    assert "it has moved" in outcome.error


async def test_a_tool_whose_block_has_ended_is_a_failure(log):
    async with small(log) as tools:
        pass
    outcome = await one(tools, "s_note", {"text": "x"})
    assert (outcome.code, outcome.effect) == ("not_available", Effect.NONE)
    assert "was closed" in outcome.error
    assert log.read_text().split() == ["start", "end"]


async def test_a_start_that_is_cancelled_leaves_no_program(log):
    async def begin():
        async with small(log, "silent"):
            pass

    task = asyncio.create_task(begin())
    # One that was asked something is in hand; one that only runs may still be killed at once.
    while not log.exists() or "asked" not in log.read_text():
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.read_text().split()[-1] == "end"


async def test_a_list_comes_page_by_page(log):
    async with small(log) as whole, small(log, "pages") as tools:
        assert [tool.name for tool in tools] == [tool.name for tool in whole]


async def test_a_list_without_an_end_is_cut(log):
    async with small(log, "endless") as tools:
        assert len(tools) == 0
    assert log.read_text().split().count("page") == 100


async def test_two_tools_of_one_name_are_misuse(log):
    with pytest.raises(Misuse, match="two tools called 'add'"):
        async with small(log, "twice"):
            pass


async def test_a_set_may_be_empty_where_nothing_is_asked_for(log):
    async with small(log, exclude=["*"]) as tools:
        assert (len(tools), list(tools), repr(tools)) == (0, [], "McpTools([])")


async def test_a_tool_is_found_by_either_name(log):
    async with small(log, include=["add", "drop.all"]) as tools:
        assert len(tools) == 2
        assert tools["add"] is tools["s_add"]
        assert tools["drop.all"] in list(tools)
        with pytest.raises(KeyError):
            tools["note"]


async def test_a_hint_of_the_open_world_is_taken_from_anybody(log):
    async with small(log) as tools:
        assert [tool.name for tool in tools if tool.network] == ["s_peek"]


async def test_a_call_has_the_time_of_its_server_and_fails_by_its_word_only(log):
    async with small(log, timeout_s=31) as tools:
        assert {(tool.timeout_s, tool.error_key) for tool in tools} == {(31, None)}


async def test_a_tool_that_only_reads_is_nothing_else(log):
    async with small(log, trusted=True) as tools:
        peek = tools["peek"]
    assert (peek.declared_effect, peek.idempotent) == (Effect.READ, False)


async def test_a_tool_is_described_by_its_title_and_takes_any_object_where_nothing_better_is_said(
    log,
):
    async with small(log, include=["peek"]) as tools:
        (peek,) = Toolbox(tools).schemas()
    assert peek.description == "Peeks."
    assert peek.parameters == {"type": "object"}


async def test_a_tool_without_a_pin_asks(log):
    async with small(log, include=["add"], pins={}) as tools:
        assert [tool.approval for tool in tools] == [True]


async def test_the_tools_of_a_server_that_was_started_anew_are_looked_at(log):
    async with small(log) as tools:
        await one(tools, "s_die", {"how": "once"})
        with log.open("a") as file:
            file.write("changed\n")
        outcome = await one(tools, "s_note", {"text": "x"})
    assert outcome.code == "tool_changed"


async def test_a_tool_that_is_there_no_more_is_not_called(log):
    async with small(log) as tools:
        await one(tools, "s_look", {"how": "change"})
        with log.open("a") as file:
            file.write("emptied\n")
        outcome = await one(tools, "s_add", {"a": 1, "b": 2})
        assert tools.changed == {tool.name for tool in tools}
    assert outcome.code == "tool_changed"


async def test_calls_that_run_together_start_a_server_anew_once(log):
    async with small(log) as tools:
        await one(tools, "s_die", {"how": "once"})
        outcomes = await asyncio.gather(*(one(tools, "s_note", {"text": "x"}) for _ in range(2)))
    assert [outcome.output for outcome in outcomes] == [{"result": "done"}] * 2
    assert log.read_text().split().count("start") == 2


async def test_a_list_that_does_not_come_is_misuse(log):
    # Each time with longer to start.
    for timeout_s in (0.3, 3, 30):
        log.write_text("mute\n")
        with pytest.raises(Misuse, match=f"within {timeout_s} s") as caught:
            async with small(log, timeout_s=timeout_s):
                pass
        if "did not list its tools" in str(caught.value):
            break
    assert "cannot be used: it did not list its tools" in str(caught.value)


async def test_a_tool_that_differs_from_its_pin_asks(log):
    async with small(log) as tools:
        pins = tools.pins
        await one(tools, "s_look", {"how": "change"})
    async with small(log, pins=pins) as tools:
        assert [tool.name for tool in tools if tool.approval] == ["s_note"]


async def test_a_tool_set_of_another_loop_is_a_failure(log):
    async with small(log) as tools:

        def elsewhere():
            return asyncio.run(one(tools, "s_note", {"text": "x"}))

        outcome = await asyncio.to_thread(elsewhere)
    assert (outcome.code, outcome.effect) == ("not_available", Effect.NONE)
    assert not outcome.retryable


async def test_the_server_ends_with_the_block(log):
    async with small(log):
        pass
    assert log.read_text().split() == ["start", "end"]


STARTING = """
import os, subprocess, sys
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
child = [sys.executable, "-S", "-c", deaf]
if os.fork() == 0:
    # The parent of this one ends, as that of a daemon does.
    process = subprocess.Popen(child, stdout=2, start_new_session=True)
    with open(os.environ["MCP_LOG"] + ".pid", "w") as file:
        file.write(str(process.pid))
    os._exit(0)
os.wait()
os.execv(sys.executable, [sys.executable, "-S", *sys.argv[1:]])
"""


async def test_what_the_server_started_ends_with_the_block_in_any_session(log):
    command = [sys.executable, "-c", STARTING, SERVER]
    async with open_mcp("s", command=command, env={**LOADED, "MCP_LOG": str(log)}):
        pid = int(Path(f"{log}.pid").read_text())
        os.kill(pid, 0)
    status = Path(f"/proc/{pid}/status")
    # Who is its parent then may take a moment to be told.
    assert not status.exists() or "\nState:\tZ" in status.read_text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "either command= or url="),
        ({"command": "x", "url": "http://x"}, "either command= or url="),
        ({"command": ""}, "is empty"),
        ({"url": "ftp://x"}, "starts with http"),
        ({"command": "x", "timeout_s": 0}, "above 0"),
        (
            {"command": "x", "timeout_s": True},
            r"timeout_s=\) must be .* above 0, got True",
        ),
        ({"command": "x", "include": "x"}, "lists of globs"),
        ({"command": "x", "exclude": "x"}, "lists of globs"),
        ({"command": "there-is-no-such-program"}, "FileNotFoundError: .*program'$"),
        ({"command": NOISY, "env": LOADED}, "there is no such database"),
        ({"command": SILENT, "env": LOADED, "timeout_s": 0.2}, "within 0.2 s"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be used: [A-Za-z]+: ."),
        ({"url": "ftp://me:a-secret@x?key=a-secret"}, "starts with http"),
        ({"url": "http://me:a-secret@127.0.0.1:9/m?key=a-secret"}, "(http://127.0.0.1:9/m)"),
        ({"command": "there-is-no-such-program --key a-secret"}, "(there-is-no-such-program)"),
    ],
)
async def test_a_server_that_does_not_start_is_misuse(options, told):
    with pytest.raises(Misuse, match=told) as caught:
        async with open_mcp("s", **options):
            pass
    assert "a-secret" not in "".join(traceback.format_exception(caught.value))


TELLING = "import os, sys; print(sys.argv[1:], os.environ['KEY'], file=sys.stderr); sys.exit(1)"


async def test_an_error_repeats_no_argument_and_no_variable():
    told = ["--token=a-secret", "--key", "b-secret", "c/s\u00e9cret"]
    command, env = [sys.executable, "-c", TELLING, *told], {"KEY": "d-secret"}
    with pytest.raises(Misuse, match="it wrote: ") as caught:
        async with open_mcp("s", command=command, env=env):
            pass
    shown = "".join(traceback.format_exception(caught.value))
    assert "['--token=***', '--key', '***', '***'] ***" in shown


async def test_a_failure_repeats_no_argument(log):
    async with small(log, "trait-a-secret") as tools:
        arguments = {"code": -32000, "said": "started with trait-a-secret"}
        outcome = await one(tools, "s_refuse", arguments)
    assert outcome.error == "started with ***"


async def test_what_a_program_wrote_that_does_not_answer_is_told():
    # Each time with longer to start and to write it.
    for timeout_s in (0.3, 3, 30):
        with pytest.raises(Misuse, match=f"within {timeout_s} s") as caught:
            async with open_mcp("s", command=SILENT, env=LOADED, timeout_s=timeout_s):
                pass
        if "it wrote" in str(caught.value):
            break
    assert "it wrote: waiting for somebody to log in" in str(caught.value)


async def test_thirty_one_megabytes_become_an_artifact(log):
    async with small(log) as tools:
        outcome = await one(tools, "s_show", {"kind": "large"})
    assert isinstance(outcome, ToolArtifactReference)
    assert outcome.size_bytes == 31 * 1024 * 1024


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, "untrusted"),
        ({"trusted": True}, ""),
        ({"trusted": True, "trust": "untrusted"}, "untrusted"),
        ({"trust": ""}, ""),
    ],
    ids=str,
)
async def test_words_of_a_server_are_trusted_as_it_is_unless_said_otherwise(log, options, label):
    async with small(log, **options) as tools:
        assert {tool.trust for tool in tools} == {label}


async def test_another_label_is_misuse(log):
    with pytest.raises(Misuse, match="trust"):
        async with small(log, trust="dubious"):
            pass
