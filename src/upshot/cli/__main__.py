"""``python -m upshot.cli``: the same as the ``upshot`` command."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
