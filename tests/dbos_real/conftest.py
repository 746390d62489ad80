"""DBOS drives runs on a PostgreSQL server; run by ``make dbos``, because it takes minutes."""

import os

if "UPSHOT_REAL_DBOS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
