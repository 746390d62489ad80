"""aimock, a mock of the providers' servers by other people; run by ``make aimock``.

Elsewhere nothing here is collected, because it is not installed.
"""

import os

if "UPSHOT_REAL_AIMOCK" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
