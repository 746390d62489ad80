"""The lab with pydantic-evals, Inspect and scipy; run by ``make lab``, in a separate environment.

Elsewhere nothing here is collected, because the packages are not installed.
"""

import os

if "UPSHOT_REAL_LAB" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
