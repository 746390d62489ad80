"""The board: channels, variables, what was seeded and what was produced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import Do, Witness, log_of, say
from upshot import (
    Agent,
    Board,
    BoardChanged,
    Graph,
    GraphEngine,
    Message,
    Misuse,
    ModelRequest,
    ModelResponse,
    run,
)
from upshot.journal import MemoryJournal
from upshot.state.run_state import RunState

CHANNELS = st.sampled_from(["main", "notes", "drafts"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), CHANNELS, st.sampled_from("abc")),
        st.tuples(st.just("set"), st.sampled_from("xyz"), st.integers()),
        st.tuples(st.just("seed")),
    ),
    max_size=20,
)


def make(changes: Any, board: Board) -> Board:
    for change in changes:
        match change:
            case ("say", channel, text):
                board.append(say(text), channel)
            case ("set", name, value):
                board.set(name, value)
            case _:
                board.mark_seeded()
    return board


@given(CHANGES)
def test_a_restored_snapshot_is_an_equal_board(changes: Any) -> None:
    board = make(changes, Board())
    again = Board.restore(board.snapshot())
    assert again == board
    assert sorted(m.text for m in again.produced()) == sorted(m.text for m in board.produced())


@given(CHANGES)
def test_the_changes_of_a_board_make_an_equal_board(changes: Any) -> None:
    board = make(changes, Board())
    again = Board()
    for change in board.facts():
        again.apply(change)
        if change.seeded:
            again.mark_seeded()
    assert again.snapshot().variables == board.variables()
    for channel in board.channels():
        assert list(again.messages(channel)) == list(board.messages(channel))
        assert again.seeded(channel) == board.seeded(channel)


@given(CHANGES)
def test_every_change_is_told_and_makes_the_same_board(changes: Any) -> None:
    told: list[BoardChanged] = []
    board = make([one for one in changes if one[0] != "seed"], Board(on_change=told.append))
    again = Board()
    for change in told:
        again.apply(change)
    assert again == board


def test_a_snapshot_does_not_see_later_changes() -> None:
    board = Board()
    board.append(say("one"))
    snapshot = board.snapshot()
    board.append(say("two"))
    board.set("x", 1)
    assert (len(snapshot.channels["main"]), snapshot.variables) == (1, {})


def test_the_answer_is_the_last_assistant_message_on_the_main_channel() -> None:
    board = Board()
    board.append(say("seeded"))
    board.mark_seeded()
    assert board.answer() is None
    board.append(say("first"))
    board.append(Message("user", "no"))
    board.append(say("aside"), "notes")
    assert board.answer() == "first"


@pytest.mark.parametrize("message", ["text", None, {"role": "user"}])
def test_what_is_no_message_is_misuse(message: Any) -> None:
    with pytest.raises(Misuse, match="takes Message values"):
        Board().append(message)


def test_a_board_is_a_default_for_what_was_never_set() -> None:
    board = Board()
    assert (board.get("x"), board.get("x", 1), board.variables()) == (None, 1, {})


def test_adopting_a_board_takes_what_it_has_more() -> None:
    board, other = Board(), Board()
    for one in (board, other):
        one.append(say("same"))
    board.mark_seeded()
    other.append(say("more"))
    other.set("x", 1)
    board.adopt(other)
    assert ([m.text for m in board.produced()], board.get("x")) == (["more"], 1)


def test_a_snapshot_does_not_see_what_is_changed_in_place_later() -> None:
    board = Board()
    board.set("v", {"k": [1]})
    snapshot = board.snapshot()
    board.get("v")["k"].append(99)  # pyright: ignore
    assert Board.restore(snapshot).get("v") == {"k": [1]}


def test_a_value_that_was_set_is_not_changed_by_who_set_it() -> None:
    told: list[BoardChanged] = []
    board, value = Board(on_change=told.append), {"x": [1]}
    board.set("v", value)
    value["x"].append(2)
    assert (board.get("v"), told[0].variables) == ({"x": [1]}, {"v": {"x": [1]}})


def test_what_is_changed_in_place_is_told_as_a_change() -> None:
    told: list[BoardChanged] = []
    board = Board(on_change=told.append)
    board.set("v", {"x": 1})
    board.get("v")["y"] = 3  # pyright: ignore
    board.append(say("one"))
    assert [one.variables for one in told] == [{"v": {"x": 1}}, {"v": {"x": 1, "y": 3}}, {}]
    assert board.get("v") == {"x": 1, "y": 3}
    board.append(say("two"))
    assert len(told) == 4


@pytest.mark.parametrize(
    ("value", "kept", "lost"),
    [
        (float("nan"), None, ("",)),
        ((1, 2), [1, 2], ()),
        ({1: 2}, {"1": 2}, ()),
        ("a\ud800", "a\ufffd", ("",)),
        ({"a": [float("inf")]}, {"a": [None]}, ("/a/0",)),
    ],
)
def test_a_variable_holds_what_json_can_and_tells_what_it_cannot(
    value: Any, kept: Any, lost: tuple[str, ...]
) -> None:
    told: list[tuple[str, tuple[str, ...]]] = []
    board = Board()
    board.set("n", value)
    board.watch(lambda _: None, lambda name, paths: told.append((name, paths)))
    assert (board.get("n"), told) == (kept, [("variable 'n'", lost)] if lost else [])


def holding_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [object(), holding_itself(), {"a": object()}])
def test_what_has_no_json_form_is_misuse_that_names_the_variable(value: Any) -> None:
    board = Board()
    with pytest.raises(Misuse, match="variable 'v'"):
        board.set("v", value)
    board.set("v", [])
    board.get("v").append(value)  # pyright: ignore
    with pytest.raises(Misuse, match="variable 'v'"):
        board.snapshot()
    assert board.get("v") == []


async def test_what_a_script_sets_is_the_same_in_log_and_board() -> None:
    journal = MemoryJournal()

    def work(run: Any, host: Any, board: Any) -> None:
        board.set("n", float("nan"))
        board.set("l", [1])
        board.get("l").append(2)

    result = await run(Agent("a", engine=Do(work)), "Q?", journal=journal)
    past = RunState()
    for event in await log_of(journal, result.run_id):
        past.add(event)
    assert past.board == result.last_board
    assert past.board.variables() == {"n": None, "l": [1, 2]}
    assert [one.message for one in result.warnings] == [
        "variable 'n' has no JSON form: it was replaced"
    ]


async def test_what_a_node_of_a_graph_changes_in_place_is_kept() -> None:
    graph = Graph(
        {
            "start": lambda board: board.set("l", [0]),
            "left": lambda board: board.get("l").append(1),
            "right": lambda board: board.set("r", float("nan")),
            "end": lambda board: board.set("output", board.get("l")),
        },
        [("start", "left"), ("start", "right"), ("left", "end"), ("right", "end")],
    )
    result = await run(Agent("a", engine=GraphEngine(graph)), "Q?")
    assert result.unwrap() == [0, 1]
    assert [one.code for one in result.warnings] == ["lossy_value"]


async def test_what_is_done_to_a_board_after_the_end_is_not_in_the_result() -> None:
    kept: list[Any] = []

    def work(run: Any, host: Any, board: Any) -> None:
        board.append(say("Done."))
        board.set("n", [1])
        kept.append(board)

    witness = Witness()
    result = await run(Agent("a", engine=Do(work)), "?", observers=[witness])
    kept[0].set("n", 2)
    kept[0].append(say("More."))
    last: Any = result.last_board
    assert last.get("n") == [1]
    assert [message.text for message in last.messages()] == ["?", "Done."]
    assert [message.text for message in result.all_messages()] == ["?", "Done."]
    assert kept[0].get("n") == 2
    assert witness.facts("on_run_end")[0][0] == result


async def test_what_is_asked_of_a_kept_board_changes_no_result() -> None:
    kept: list[Any] = []
    result = await run(Agent("a", engine=Do(lambda run, host, board: kept.append(board))), "?")
    last: Any = result.last_board
    last.set("n", 1)
    last.append(say("More."))
    kept[0].append(say("Else."))
    kept[0].mark_seeded()
    assert [message.text for message in last.messages()] == ["?", "More."]
    assert last.produced() == (say("More."),)
    assert last.get("n") == 1


async def test_the_last_board_can_be_worked_on() -> None:
    result = await run(Agent("a", engine=Do(lambda run, host, board: board.set("n", 1))), "?")
    last: Any = result.last_board
    last.set("n", 2)
    assert last.get("n") == 2


async def test_what_an_engine_changes_in_place_at_last_is_logged() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.set("n", [1])
        board.get("n").append(2)

    journal = MemoryJournal()
    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    changes = [
        event.variables
        for event in await log_of(journal, result.run_id)
        if isinstance(event, BoardChanged) and event.variables
    ]
    assert changes == [{"n": [1]}, {"n": [1, 2]}]
    last: Any = result.last_board
    assert last.get("n") == [1, 2]


async def test_what_an_engine_leaves_in_place_that_is_no_json_fails_it() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.set("n", [1])
        board.get("n").append(object())

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert (result.error.type, "'n'" in result.error.message) == ("Misuse", True)


async def test_an_attempt_whose_board_is_no_json_is_ended_for_observers() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.set("n", [1])
        board.get("n").append(object())

    witness = Witness()
    await run(Agent("a", engine=Do(work)), "?", observers=[witness])
    assert witness.names() == [
        "on_run_start",
        "on_attempt_start",
        "on_attempt_end",
        "on_run_end",
    ]


async def test_what_a_seeder_changes_in_place_is_seeded() -> None:
    def prepare(info: Any, request: Any) -> Board:
        board = Board()
        board.set("l", [])
        board.get("l").append(1)  # pyright: ignore
        return board

    journal, agent = MemoryJournal(), Agent("a", engine=Do(lambda run, host, board: "Done."))
    result = await run(agent, "Q?", prepare=prepare, journal=journal)
    first = [one for one in await log_of(journal, result.run_id) if isinstance(one, BoardChanged)]
    assert (first[0].seeded, first[0].variables) == (True, {"l": [1]})


async def test_each_run_on_one_board_tells_what_json_could_not_hold_of_it() -> None:
    board = make([("say", "main", "a")], Board())
    board.set("n", float("nan"))
    for _ in range(2):
        result = await run(Agent("a", engine=Do(lambda *_: None)), "Q?", prepare=lambda *_: board)
        assert [warning.code for warning in result.warnings] == ["lossy_value"]


async def test_a_board_of_a_class_of_ones_own_is_the_board() -> None:
    class Mine(Board):
        """It may know more than is in a snapshot."""

    board, met = Mine(), list[Any]()
    engine = Do(lambda run, host, board: met.append(board))
    await run(Agent("a", engine=engine), "Q?", prepare=lambda *_: board)
    assert met[0] is board


def test_messages_that_were_read_stay_as_they_were() -> None:
    board = make([("say", "main", "a")], Board())
    read = board.messages()
    board.append(say("b"))
    assert (len(read), len(board.messages())) == (1, 2)


async def test_what_a_model_was_sent_stays_as_it_was() -> None:
    asked: list[Any] = []

    class Keeping:
        async def call(self, request: ModelRequest) -> ModelResponse:
            asked.append(request.messages)
            return ModelResponse(content="no JSON" if len(asked) == 1 else "[1]")

    result = await run(Agent("a", model=Keeping(), output_type=list[int]), "Go.")
    assert result.output == [1]
    assert [[message.role for message in said] for said in asked] == [
        ["user"],
        ["user", "assistant", "user"],
    ]
