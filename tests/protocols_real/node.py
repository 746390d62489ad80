"""Node and the packages that are installed beside the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
PACKAGES = BIN.parent / "node" / "node_modules"
# Newer than what some systems have.
NODE = str(BIN / "node")

needs_node = pytest.mark.skipif(
    not PACKAGES.is_dir(), reason="make protocols installs the packages"
)
