"""What strangers may have written stands between marks that they cannot write."""

from hypothesis import given
from hypothesis import strategies as st

from upshot.contract.tool_calls import fence


@given(st.text())
def test_the_text_stands_whole_between_two_marks_that_it_does_not_hold(text: str):
    whole = fence(text, run_id="run-1", call_id="1")
    opening, _, rest = whole.partition("\n")
    mark = opening.removeprefix("<untrusted-").removesuffix(">")
    assert mark not in text
    assert rest.endswith(f"\n{text}\n</untrusted-{mark}>")


def test_a_fence_put_into_a_text_does_not_close_the_fence_round_it():
    inner = fence("data", run_id="run-1", call_id="1")
    outer = fence(inner, run_id="run-1", call_id="1")
    assert outer.count(outer.splitlines()[-1]) == 1


def test_the_same_text_gets_the_same_marks_and_another_run_others():
    once = fence("data", run_id="run-1", call_id="1")
    assert once == fence("data", run_id="run-1", call_id="1")
    assert once != fence("data", run_id="run-2", call_id="1")
