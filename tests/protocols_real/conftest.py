"""The official clients and suites of the protocols; run by ``make protocols``, in a separate
environment.

Elsewhere nothing here is collected, because they are not installed.
"""

import os

if "UPSHOT_REAL_PROTOCOLS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
