"""``python -m upshot``: the same as the ``upshot`` command."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
