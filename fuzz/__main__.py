"""``python -m fuzz [SECONDS] [SEED]``: change replies at random and read them.

A reply is changed byte by byte and piece by piece, and then read whole and in pieces by
``StreamReader``, by ``read_response`` and by ``classify_error``. None of them may raise, and the
way a stream is cut must not matter. Any violation is printed as a command that reproduces it.
"""

from __future__ import annotations

import random
import sys
import time
import traceback

from fuzz.seeds import SEEDS
from upshot.wire import StreamReader, classify_error, read_response

STATUSES = (200, 400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529)
ABSURD = (
    b"null",
    b"-1",
    b"1e999",
    b"[]",
    b"{}",
    b'"\\ud800"',
    b"NaN",
    b"\x00",
    b"\xff",
    b"\r",
    b"\n\n",
)


def change(data: bytes, rng: random.Random) -> bytes:
    """Return *data* with some of its bytes changed, dropped, doubled or moved."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        start = rng.randrange(len(out) + 1)
        end = min(len(out), start + rng.randint(0, 12))
        match rng.randrange(5):
            case 0:
                out[start:end] = b""
            case 1:
                out[start:start] = out[start:end]
            case 2:
                out[start:end] = rng.choice(ABSURD)
            case 3:
                out[start:end] = rng.randbytes(end - start)
            case _:
                del out[start:]
    return bytes(out)


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """Return *data* in pieces of random size."""
    pieces: list[bytes] = []
    while data:
        size = rng.randint(1, 40)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def check(surface: str, data: bytes, rng: random.Random) -> None:
    """Read *data* in every way.

    Raises:
        AssertionError: The way a stream was cut changed what was read.
        Exception: Whatever a reader raised.
    """
    status = rng.choice(STATUSES)
    read_response(surface, status=status, headers={}, body=data, now=0.0)
    classify_error(status=status, body=data)
    whole = StreamReader(surface, mode="sse", now=0.0)
    whole.feed(data)
    split = StreamReader(surface, mode="sse", now=0.0)
    for piece in cut(data, rng):
        split.feed(piece)
    assert whole.close() == split.close(), "how it was cut changed the response"


def main(arguments: list[str]) -> int:
    """Fuzz for a number of seconds (60), from a seed (random); returns 1 if anything broke."""
    seconds = float(arguments[0]) if arguments else 60.0
    first = int(arguments[1]) if len(arguments) > 1 else random.SystemRandom().randrange(2**32)
    only = len(arguments) > 1 and seconds == 0
    end, count = time.monotonic() + seconds, 0
    while only or time.monotonic() < end:
        number = first + count
        rng = random.Random(number)
        surface = rng.choice(list(SEEDS))
        data = change(rng.choice(SEEDS[surface]), rng)
        try:
            check(surface, data, rng)
        except Exception:
            traceback.print_exc()
            print(f"{surface}: {data!r}\nagain: python -m fuzz 0 {number}", file=sys.stderr)
            return 1
        count += 1
        if only:
            break
    print(f"{count} replies read, none raised")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
