"""A real Restate server from the registry; run by ``make restate``, in an environment apart.

Elsewhere nothing here is collected, for the server is not installed there.
"""

import os

if "UPSHOT_REAL_RESTATE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
