from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import OperationalError
from psycopg.errors import DivisionByZero

from tests.postgres import PostgresServer
from upshot.journal.event_codec import Entry, checksum
from upshot.journal.postgres.server import ROWS, Server, columns_of

NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
ENTRY = st.builds(
    Entry,
    run_id=st.text(max_size=5),
    seq=st.integers(1, (1 << 32) - 1),
    epoch=NUMBER,
    kind=st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))),
    time=st.none() | NUMBER,
    body=st.binary(),
    change=st.none(),
    effect=st.none(),
)


@given(st.lists(st.tuples(st.integers(0, (1 << 31) - 1), ENTRY), max_size=20))
def test_any_events_arrive_at_the_server_as_they_were_sent(
    postgres: PostgresServer, rows: list[tuple[int, Entry]]
) -> None:
    connection = Server(postgres.url()).connect()
    arrived = connection.do(f"SELECT * FROM {ROWS}", columns_of(rows)).fetchall()
    connection.close()
    assert arrived == [
        (run_no << 32 | one.seq, one.epoch, one.kind, one.time, one.body, checksum(one))
        for run_no, one in rows
    ]


def test_what_is_sent_straight_to_the_server_fails_as_the_driver_says(
    postgres: PostgresServer,
) -> None:
    connection = Server(postgres.url()).connect()
    assert connection.send(b"SELECT 7::bigint WHERE $1 = ''", [b""], [25]) == [bytes([*[0] * 7, 7])]
    with pytest.raises(DivisionByZero):
        connection.send(b"SELECT 1 / 0", [], [])
    ((own,),) = connection.do("SELECT pg_backend_pid()").fetchall()
    postgres.do(f"SELECT pg_terminate_backend({own}, 60000)")
    for _ in range(2):
        with pytest.raises(OperationalError):
            connection.send(b"SELECT 1", [], [])
    connection.close()
