"""Which stored outputs are let go."""

from hypothesis import given
from hypothesis import strategies as st

from upshot.journal.artifact_store import Kept, choose_old

ROWS = st.lists(
    st.builds(
        Kept,
        st.uuids().map(str),
        st.integers(0, 1000),
        st.floats(0, 1e9, allow_nan=False),
    )
)


@given(ROWS, st.none() | st.floats(0, 1e9), st.none() | st.integers(0, 5000), st.floats(0, 1e9))
def test_what_stays_keeps_the_limits_and_no_more_goes_than_has_to(
    rows: list[Kept], max_age_s: float | None, max_bytes: int | None, now: float
):
    gone = choose_old(rows, max_age_s=max_age_s, max_bytes=max_bytes, now=now)
    stay = [one for one in rows if one not in gone]
    if max_bytes is not None:
        assert sum(one.size_bytes for one in stay) <= max_bytes
    if max_age_s is not None:
        assert all(one.stored_at >= now - max_age_s for one in stay)
    youngest_gone = max((one.stored_at for one in gone), default=0.0)
    assert all(one.stored_at >= youngest_gone for one in stay)
    if gone:
        last = gone[-1]
        is_old = max_age_s is not None and (last.stored_at) < now - max_age_s
        left = sum(one.size_bytes for one in stay) + last.size_bytes
        assert is_old or (max_bytes is not None and left > max_bytes)
