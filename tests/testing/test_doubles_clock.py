"""FakeClock."""

from datetime import UTC, datetime

from upshot.testing.doubles import FakeClock


async def test_waiting_takes_no_time_and_is_written_down():
    clock = FakeClock(datetime(2031, 1, 1, tzinfo=UTC))
    await clock.sleep(90)
    clock.advance(30)
    assert clock.sleeps == [90]
    assert clock.monotonic() == 120
    assert clock.now() == datetime(2031, 1, 1, 0, 2, tzinfo=UTC)
