"""The official clients and suites of the protocols; run by ``make protocols``, in an environment of
its own.

Elsewhere nothing here is collected, for they are not installed there.
"""

import os

if "UPSHOT_REAL_PROTOCOLS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
