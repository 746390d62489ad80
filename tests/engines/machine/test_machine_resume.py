"""Machines that are cut off anywhere, parked or killed: finished states are not entered again."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engines.machine_kit import (
    AGENT,
    COUNTING,
    cut_and_resumed,
    engine_of,
    go,
    logged,
    talker,
    whole,
)
from tests.processes import run_to_its_kill
from tests.runs.kit import Safe, log_of
from upshot import (
    Agent,
    Answer,
    Approve,
    BoardSnapshot,
    Checkpoint,
    Event,
    FinalizeDecision,
    MachineEngine,
    Message,
    Misuse,
    ModelResponse,
    ScriptedModel,
    Status,
    ToolCall,
    Usage,
    load_machine,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal

STATES = """
    a:
      type: initial
      function: f
      input: {name: '"a"'}
      output_to_context: {n: output}
      transitions: [{to: b}]
    b:
      foreach: '[1, 2]'
      function: f
      input: {name: '"b" + string(item)'}
      output_to_context: {all: output}
      transitions: [{to: c}]
    c:
      parallel: {x: {function: f, input: {name: '"x"'}}, y: {agent: talker}}
      output_to_context: {both: output}
      transitions: [{to: d}]
    d:
      machine:
        states:
          p: {type: initial, function: f, input: {name: '"p"'}, transitions: [{to: q}]}
          q: {type: final, output: {p: output}}
      transitions: [{to: e}]
    e: {type: final, output: {n: context.n, all: context.all, both: context.both, d: output.p}}
"""
EXPECTED = {"n": 1, "all": [1, 1], "both": {"x": 1, "y": {"content": "hi"}}, "d": 1}


class Work:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def __call__(self, name: str) -> int:
        self.done[name] += 1
        return 1


async def test_a_machine_that_is_cut_anywhere_goes_on_after_its_finished_states() -> None:
    whole, log = await logged(
        engine_of(STATES, functions={"f": Work()}, agents={"talker": talker("hi")})
    )
    assert whole.output == EXPECTED
    for place in range(1, len(log)):
        work = Work()
        agents = {"talker": talker("hi")}
        events = [event for event in log[:place] if event.run_id == "run-1"]
        result, _ = await cut_and_resumed(
            engine_of(STATES, functions={"f": work}, agents=agents), events
        )
        assert result.output == EXPECTED
        settled = {e.key for e in events if e.kind == "step_settled"}
        for step, name in (
            ("a#1", "a"),
            ("b#1/0", "b1"),
            ("b#1/1", "b2"),
            ("c#1/x", "x"),
            ("d#1/p#1", "p"),
        ):
            again = 0 if f"machine-1/{step}" in settled else 1
            assert work.done[name] == again, (place, name)


async def test_the_board_of_a_resumed_run_is_that_of_one_that_was_never_cut() -> None:
    given_ = {"functions": {"f": Work()}, "agents": {"talker": talker("hi")}}
    whole, log = await logged(engine_of(STATES, **given_))
    for place in range(2, len(log), 3):
        made = engine_of(STATES, functions={"f": Work()}, agents={"talker": talker("hi")})
        result, _ = await cut_and_resumed(made, log[:place])
        assert result.last_board == whole.last_board
        assert result.content == whole.content


async def test_that_a_state_begins_is_on_disk_before_its_work() -> None:
    journal, seen = Safe(), list[str]()

    def work() -> None:
        seen.extend(event.kind for event in journal.safe[-1:])

    states = "a: {type: initial, function: f, transitions: [{to: z}]}\nz: {type: final}"
    assert (await go(engine_of(states, functions={"f": work}), journal=journal)).success
    assert seen == ["step_started"]


async def test_the_log_of_a_step_holds_only_what_it_changed() -> None:
    engine = MachineEngine(
        load_machine(whole(COUNTING, context="{n: 0, other: 1}")),
        functions={"add": lambda n, by: n + by},
    )
    result, log = await logged(engine)
    assert result.output == {"n": 3}
    noted = [event.value for event in log if event.kind == "step_settled"]  # type: ignore[union-attr]
    assert "other" not in json.dumps(noted)


async def test_a_machine_that_has_changed_since_is_told_and_a_lost_state_is_a_dead_end() -> None:
    states = "a: {type: initial, transitions: [{to: b}]}\nb: {type: final, output: {n: 1}}"
    _, log = await logged(engine_of(states))
    place = place_of(log, "machine-1/a#1") + 1
    again, _ = await cut_and_resumed(engine_of(states.replace("n: 1", "n: 2")), log[: place + 1])
    assert again.output == {"n": 2}
    assert [warning.code for warning in again.warnings] == ["machine_changed"]
    lost, _ = await cut_and_resumed(engine_of(states.replace("b", "c")), log[: place + 1])
    assert lost.error is not None
    assert lost.error.code == "dead_end"


async def test_the_same_machine_is_not_told_of() -> None:
    states = "a: {type: initial, transitions: [{to: b}]}\nb: {type: final, output: {n: 1}}"
    _, log = await logged(engine_of(states))
    again, _ = await cut_and_resumed(engine_of(states), log[:-1])
    assert not again.warnings


# ---- people

WAITING = """
    a: {type: initial, function: f, input: {name: '"a"'}, transitions: [{to: ask}]}
    ask:
      wait: approval
      output_to_context: {said: output}
      transitions: [{when: 'output == "yes"', to: b}, {to: c}]
    b: {type: final, output: {said: context.said}}
    c: {type: final, output: {no: context.said}}
"""


@pytest.mark.parametrize(
    ("answer", "expected"), [("yes", {"said": "yes"}), ({"x": 1}, {"no": {"x": 1}})]
)
async def test_a_wait_state_parks_and_goes_on_by_the_answer(answer: Any, expected: Any) -> None:
    journal, work = MemoryJournal(), Work()
    made = engine_of(WAITING, functions={"f": work})
    parked = await go(made, journal=journal)
    assert parked.status is Status.INPUT_REQUIRED
    (question,) = parked.pending
    assert question.question == "approval"  # type: ignore[union-attr]
    assert question.id == "approval"  # type: ignore[union-attr]
    # What waits has not begun, so that nothing is cut off.
    log = await log_of(journal, "run-1")
    begun = {event.key for event in log if event.kind == "step_started"}
    assert "machine-1/ask#1" not in begun
    answers = [Answer(question.id, answer)]  # type: ignore[union-attr]
    result = await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert result.output == expected
    assert work.done == {"a": 1}


async def test_a_wait_that_comes_again_has_a_number() -> None:
    states = """
        ask:
          type: initial
          wait: approval
          transitions: [{when: 'output == "yes"', to: b}, {to: ask}]
        b: {type: final, output: {said: output}}
    """
    journal, made = MemoryJournal(), engine_of(states)
    parked = await go(made, journal=journal)
    for id, answer in (("approval", "no"), ("approval#2", "no"), ("approval#3", "yes")):
        assert [one.id for one in parked.pending] == [id]
        answers = [Answer(id, answer)]
        parked = await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert parked.output == {"said": "yes"}


async def test_waits_of_one_name_at_the_same_time_keep_their_answers() -> None:
    states = f"""
        a:
          type: initial
          parallel: {{left: {waiting_for("ok")}, right: {waiting_for("ok")}}}
          transitions: [{{to: b}}]
        b: {{type: final, output: output}}
    """
    journal, made = MemoryJournal(), engine_of(states)
    parked = await go(made, journal=journal)
    assert [one.id for one in parked.pending] == ["ok", "ok#2"]
    for id, answer in (("ok#2", "right"), ("ok", "left")):
        answers = [Answer(id, answer)]
        parked = await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert parked.output == {"left": "left", "right": "right"}


async def test_a_wait_of_another_attempt_is_asked_anew() -> None:
    class Again:
        def before_finalize(self, *_: Any) -> FinalizeDecision:
            return FinalizeDecision.revise("Ask again.", "once more")

    journal, made = MemoryJournal(), engine_of(WAITING, functions={"f": Work()})
    options: dict[str, Any] = {"journal": journal, "deciders": [Again()], "max_attempts": 2}
    await go(made, **options)
    answers = [Answer("approval", "yes")]
    parked = await resume("run-1", AGENT, engine=made, answers=answers, **options)
    assert [one.id for one in parked.pending] == ["approval#2"]


async def test_a_state_that_waits_is_entered_once() -> None:
    class Hooks:
        def __init__(self) -> None:
            self.entered: list[str] = []

        def on_state_enter(self, state_name: str, context: dict[str, Any]) -> None:
            self.entered.append(state_name)
            context["entered"] = len(self.entered)

    hooks, journal = Hooks(), MemoryJournal()
    made = engine_of(WAITING, functions={"f": Work()}, hooks=hooks)
    parked = await go(made, journal=journal)
    for _ in range(2):
        # Somebody looks again before anybody has answered.
        parked = await resume("run-1", AGENT, journal=journal, engine=made)
        assert parked.status is Status.INPUT_REQUIRED
    answers = [Answer(parked.pending[0].id, "yes")]  # type: ignore[union-attr]
    await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert hooks.entered == ["a", "ask", "b"]


async def test_a_wait_state_may_word_its_question() -> None:
    made = engine_of(
        """
        ask:
          type: initial
          wait: approval
          input: {question: '"Pay " + string(context.n) + "?"', choices: ['"yes"', '"no"']}
          transitions: [{to: b}]
        b: {type: final, output: output}
        """
    )
    journal = MemoryJournal()
    parked = await go(made, journal=journal, inputs={"n": 5})
    (question,) = parked.pending
    assert (question.question, question.choices) == ("Pay 5?", ("yes", "no"))  # type: ignore[union-attr]


async def test_a_wait_state_may_ask_a_plain_text() -> None:
    made = engine_of(
        """
        ask: {type: initial, wait: approval, input: '"Pay?"', transitions: [{to: b}]}
        b: {type: final, output: output}
        """
    )
    (pending,) = (await go(made)).pending
    assert (pending.id, pending.question) == ("approval", "Pay?")  # type: ignore[union-attr]


async def test_a_person_who_is_there_is_asked_at_once() -> None:
    asked: list[str] = []

    class Host:
        async def ask_user(self, question: str) -> str:
            asked.append(question)
            return "yes"

    made = engine_of(WAITING, functions={"f": Work()})
    assert (await go(made, host=Host())).output == {"said": "yes"}
    assert asked == ["approval"]


def waiting_for(name: str) -> str:
    """A sub-machine that waits."""
    first = f"w: {{type: initial, wait: {name}, transitions: [{{to: v}}]}}"
    return f"{{machine: {{states: {{{first}, v: {{type: final, output: output}}}}}}}}"


async def test_several_waits_at_the_same_time_are_all_told_and_go_on_in_any_order() -> None:
    left, right = waiting_for("left"), waiting_for("right")
    states = f"""
        a:
          type: initial
          parallel: {{left: {left}, right: {right}}}
          transitions: [{{to: b}}]
        b: {{type: final, output: output}}
    """
    journal, made = MemoryJournal(), engine_of(states)
    parked = await go(made, journal=journal)
    asked: dict[str, str] = {wait.question: wait.id for wait in parked.pending}  # type: ignore[union-attr]
    assert asked.keys() == {"left", "right"}
    one = await resume(
        "run-1", AGENT, journal=journal, engine=made, answers=[Answer(asked["right"], 2)]
    )
    assert one.status is Status.INPUT_REQUIRED
    done = await resume(
        "run-1", AGENT, journal=journal, engine=made, answers=[Answer(asked["left"], 1)]
    )
    assert done.output == {"left": 1, "right": 2}


async def test_a_finished_member_is_not_done_again_while_another_waits() -> None:
    states = f"""
        a:
          type: initial
          parallel: {{left: {waiting_for("w")}, right: {{function: f, input: {{name: '"right"'}}}}}}
          transitions: [{{to: b}}]
        b: {{type: final, output: output}}
    """
    journal, work = MemoryJournal(), Work()
    made = engine_of(states, functions={"f": work})
    parked = await go(made, journal=journal)
    answers = [Answer(parked.pending[0].id, "x")]  # type: ignore[union-attr]
    result = await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert result.output == {"left": "x", "right": 1}
    assert work.done == {"right": 1}


async def test_the_model_calls_of_foreign_agents_are_counted_in_later_sessions_too() -> None:
    class Foreign:
        async def execute(self, input: Any, context: Any) -> Any:
            # Most say what they used, and not that it was one call.
            return {"content": "ok", "usage": {"input_tokens": 10, "output_tokens": 5}}

    states = """
        a:
          type: initial
          foreach: '[1, 2]'
          agent: foreign
          transitions: [{to: ask}]
        ask: {wait: approval, transitions: [{to: b}]}
        b: {type: final, output: output}
    """
    journal, made = MemoryJournal(), engine_of(states, agents={"foreign": Foreign()})
    parked = await go(made, journal=journal)
    answers = [Answer("approval", "yes")]
    result = await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert parked.usage == result.usage == Usage(input_tokens=20, output_tokens=10, api_calls=2)


# ---- checkpoints


async def test_a_checkpoint_that_names_a_state_enters_the_machine_there() -> None:
    work = Work()
    board = BoardSnapshot(channels={"main": (Message("user", "Go."),)}, variables={"n": 1})
    made = engine_of(
        """
        a: {type: initial, function: f, input: {name: '"a"'}, transitions: [{to: b}]}
        b: {function: f, input: {name: '"b"'}, transitions: [{to: c}]}
        c: {type: final, output: context}
        """,
        functions={"f": work},
    )
    result = await run(AGENT, "Go.", engine=made, resume_from=Checkpoint("run-9", "b", board=board))
    assert result.output == {"n": 1}
    assert work.done == {"b": 1}


async def test_a_checkpoint_of_an_unknown_state_is_misuse() -> None:
    made = engine_of(WAITING, functions={"f": Work()})
    with pytest.raises(Misuse):
        await run(AGENT, "Go.", engine=made, resume_from=Checkpoint("run-9", "zz"))


# ---- runs inside the run


async def test_an_agent_that_was_cut_off_goes_on_where_its_own_log_stands() -> None:
    asked: list[int] = []

    def reply(messages: Any) -> str:
        asked.append(len(messages))
        return "hi"

    states = "a: {type: initial, agent: talker, transitions: [{to: b}]}\nb: {type: final}"
    journal = MemoryJournal()
    first = await go(engine_of(states, agents={"talker": talker(reply)}), journal=journal)
    log = await log_of(journal, "run-1")
    inner = next(run.run_id for run in await journal.runs() if run.run_id != "run-1")
    copy = MemoryJournal()
    kept = {"run-1": log[: place_of(log, "child:") + 1], inner: await log_of(journal, inner)}
    for run_id, events in kept.items():
        epoch = await copy.claim(run_id)
        for event in events:
            copy.append(event, epoch=epoch)
    made = engine_of(states, agents={"talker": talker(reply)})
    result = await resume("run-1", AGENT, journal=copy, engine=made)
    assert (result.content, result.usage) == (first.content, first.usage)
    assert len(asked) == 1


def place_of(log: list[Event], prefix: str) -> int:
    """The first step whose key begins with *prefix*."""
    return next(n for n, e in enumerate(log) if getattr(e, "key", "").startswith(prefix))


async def test_what_finished_states_used_counts_in_a_resumed_run() -> None:
    states = """
        a: {type: initial, agent: talker, transitions: [{to: b}]}
        b: {wait: w, transitions: [{to: c}]}
        c: {type: final, output: {n: 1}}
    """
    spent = ModelResponse(content="x", usage=Usage(input_tokens=10, output_tokens=5))
    journal, made = MemoryJournal(), engine_of(states, agents={"talker": talker(spent)})
    parked = await go(made, journal=journal)
    answers = [Answer(parked.pending[0].id, 1)]  # type: ignore[union-attr]
    result = await resume("run-1", AGENT, journal=journal, engine=made, answers=answers)
    assert result.usage.total_tokens == 15


async def test_an_agent_whose_tool_needs_approval_parks_the_machine() -> None:
    ran: list[str] = []

    @tool(effect="write", approval=True)
    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    def clerk() -> Agent[Any]:
        call = ToolCall("call-1", "pay", {"to": "Ann"})
        return Agent("clerk", model=ScriptedModel([call, "It is paid."]), tools=[pay])

    states = "a: {type: initial, agent: clerk, transitions: [{to: b}]}\nb: {type: final}"
    journal = MemoryJournal()
    parked = await go(engine_of(states, agents={"clerk": clerk()}), journal=journal)
    assert parked.status is Status.INPUT_REQUIRED
    (waits,) = parked.pending
    answers = [Approve(waits.call_id)]  # type: ignore[union-attr]
    inner = next(run.run_id for run in await journal.runs() if run.run_id != "run-1")
    await resume(inner, clerk(), journal=journal, answers=answers)
    made = engine_of(states, agents={"clerk": clerk()})
    result = await resume("run-1", AGENT, journal=journal, engine=made)
    assert (result.content, ran) == ("It is paid.", ["Ann"])


# ---- a process that is really killed

PROGRAM = '''
import asyncio, os, signal, sqlite3, sys
from upshot import Agent, MachineEngine, Request, load_machine, run_sync

MACHINE = """
spec: upshot.machine/1
context: {done: []}
states:
  a:
    type: initial
    function: work
    input: {name: "'a'"}
    output_to_context: {done: "context.done + [output]"}
    transitions: [{to: b}]
  b:
    foreach: "['x', 'y']"
    function: work
    input: {name: item}
    output_to_context: {done: context.done + output}
    transitions: [{to: c}]
  c:
    function: work
    input: {name: "'c'"}
    output_to_context: {done: "context.done + [output]"}
    transitions: [{to: d}]
  d: {type: final, output: context.done}
"""

def settled_on_disk():
    """Whether the journal file shows the other item as finished."""
    query = "SELECT count(*) FROM events WHERE kind = 'step_settled' AND " \\
        "instr(CAST(body AS TEXT), '/b#1/0')"
    with sqlite3.connect(sys.argv[1]) as file:
        return file.execute(query).fetchone()[0]

def make(effects, deadly):
    async def work(name):
        with open(effects, "a") as file:
            file.write(name + "\\n")
        if name == deadly:
            while not settled_on_disk():
                await asyncio.sleep(0.005)
            os.kill(os.getpid(), signal.SIGKILL)
        return name

    return MachineEngine(load_machine(MACHINE), functions={"work": work})

if __name__ == "__main__":
    journal, effects = sys.argv[1:]
    run_sync(Agent("m"), Request("Go.", run_id="run-1"), engine=make(effects, "y"), journal=journal)
'''


async def test_a_killed_machine_goes_on_after_what_was_finished(tmp_path: Path) -> None:
    program, journal, effects = (tmp_path / name for name in ("program.py", "runs.db", "effects"))
    program.write_text(PROGRAM)
    run_to_its_kill(program, journal, effects)
    engine = runpy.run_path(str(program))["make"](effects, "")
    result = await resume("run-1", Agent("m"), journal=journal, engine=engine)
    assert result.output == ["a", "x", "y", "c"]
    assert Counter(effects.read_text().split()) == {"a": 1, "x": 1, "y": 2, "c": 1}
