"""The distribution, built and installed in fresh environments; run by ``make release``.

Elsewhere nothing here is collected, because it uses the package index.
"""

import os

if "UPSHOT_REAL_RELEASE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
