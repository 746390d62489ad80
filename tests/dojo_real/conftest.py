"""AgentDojo with upshot as its runtime; run by ``make dojo``, in a separate environment.

Elsewhere nothing here is collected, because the package is not installed.
"""

import os

if "UPSHOT_REAL_DOJO" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


def pytest_terminal_summary(terminalreporter):
    if "UPSHOT_REAL_DOJO" in os.environ:
        from tests.dojo_real.figures import table

        terminalreporter.write_line(table())
