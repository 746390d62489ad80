"""A real Restate server from the registry; run by ``make restate``, in a separate environment.

Elsewhere nothing here is collected, because the server is not installed.
"""

import os

if "UPSHOT_REAL_RESTATE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
