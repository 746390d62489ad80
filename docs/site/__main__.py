"""Build the site into ``build/site``: ``python -m docs.site``.

Every version has its folder, and ``versions.json`` lists them, so a site that is kept grows by one
folder a release. The build fails on any warning of Sphinx and on any broken link.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs.site import checks, pages
from upshot.version import __version__

SITE = pages.ROOT / "build" / "site"
SOURCES = pages.ROOT / "build" / "site-sources"
CACHE = pages.ROOT / "build" / "site-cache"
HERE = Path(__file__).parent
START = """<!doctype html>
<html lang="en"><title>upshot</title><meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">upshot {0}</a></html>
"""


def _version_key(name: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", name)]


def main() -> int:
    """Build, and say what is wrong on stderr; 0 if nothing is."""
    goal = SITE / __version__
    for folder in (SOURCES, CACHE, goal):
        shutil.rmtree(folder, ignore_errors=True)
    SOURCES.mkdir(parents=True)
    texts = pages.write_sources(SOURCES)
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    folders = ["-c", str(HERE), "-d", str(CACHE), str(SOURCES), str(goal)]
    if status := subprocess.run([*sphinx, *folders], cwd=pages.ROOT, check=False).returncode:
        return status
    for name, text in texts.items():
        (goal / f"{name}.md").write_text(
            text.partition("\n```{toctree}")[0].rstrip() + "\n", "utf-8"
        )
    (goal / "llms.txt").write_text(pages.llms_index(texts), "utf-8")
    (goal / "llms-full.txt").write_text(pages.llms_full(texts), "utf-8")
    versions = [one.parent.name for one in SITE.glob("*/index.html")]
    versions.sort(key=_version_key, reverse=True)
    (SITE / "versions.json").write_text(json.dumps(versions), "utf-8")
    (SITE / "index.html").write_text(START.format(versions[0]), "utf-8")
    faults = checks.faults_of(goal)
    told = faults or [f"{len(texts)} pages in {goal.relative_to(pages.ROOT)}"]
    sys.stderr.write("".join(f"{one}\n" for one in told))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
