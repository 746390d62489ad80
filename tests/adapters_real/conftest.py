"""Native objects made by the real packages; run by ``make adapters``, in a separate environment.

Elsewhere nothing here is collected, because the packages are not installed.
"""

import os

if "UPSHOT_REAL_ADAPTERS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]

# None of them may use a network: no key, no price list, no trace.
os.environ.update(
    OPENAI_API_KEY="no-key",
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    OPENAI_AGENTS_DISABLE_TRACING="1",
)
