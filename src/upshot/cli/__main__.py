"""``python -m upshot.cli``: the same as the ``upshot`` command."""

from __future__ import annotations

import sys

from upshot.cli import main

if __name__ == "__main__":
    sys.exit(main())
