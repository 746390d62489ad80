"""AgentDojo with upshot as its runtime; run by ``make dojo``, in an environment of its own.

Elsewhere nothing here is collected, for the package is not installed there.
"""

import os

if "UPSHOT_REAL_DOJO" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


def pytest_terminal_summary(terminalreporter):
    if "UPSHOT_REAL_DOJO" in os.environ:
        from tests.dojo_real.figures import table

        terminalreporter.write_line(table())
