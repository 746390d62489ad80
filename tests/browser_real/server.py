"""The shop, served by a process of its own: ``server.py JOURNAL PORT``."""

import sys

import uvicorn

from tests.browser_real.shop import make_shop
from tests.serve.kit import who

if __name__ == "__main__":
    journal, port = sys.argv[1:]
    uvicorn.run(make_shop(journal).asgi(user=who), port=int(port), log_level="warning")
