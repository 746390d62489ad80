"""The demonstration behind ``make demo``: the survey agent, from request to report.

It does nothing that the ``upshot`` command does not do: it runs the agent, shows the run, and says
what it typed. ``--model openai:gpt-5`` asks a real provider; without it the model is scripted.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import sys
import time
from contextlib import ExitStack, chdir, redirect_stderr
from pathlib import Path

from repository import find_repository

from upshot import Misuse
from upshot.cli import main as upshot

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
JOURNAL = HERE.parent.parent / ".upshot" / "demo.db"
MISUSE = 2
REQUEST = "Survey the code of this repository and report what you find."
SCRIPTED = f"sim:{HERE / 'scenario.json'}"


def main() -> int:
    """Run the demonstration.

    Returns:
        The exit code of the run, 2 where there is nothing to survey.
    """
    parser = argparse.ArgumentParser(description="Have an agent survey a git repository.")
    parser.add_argument("--model", default="", help="provider:model; without it, a scripted one")
    parser.add_argument("--journal", type=Path, default=JOURNAL, help="where its log goes")
    given = parser.parse_args()
    model, journal = given.model or SCRIPTED, given.journal.absolute()
    try:
        repository = find_repository()
    except Misuse as error:
        sys.stderr.write(f"demo: {error}\n")
        return 2
    # Made absolute, since the agent works in the repository's folder.
    os.environ["DEMO_REPO"] = str(repository.root)
    journal.parent.mkdir(exist_ok=True)
    run_id = f"run-{secrets.token_hex(8)}"
    show = ["show", run_id, "--journal", shown(journal)]
    began = time.monotonic()
    with ExitStack() as stack:
        if not sys.stdout.isatty():
            # In a pipe there is one stream, so that all comes in its order.
            stack.enter_context(redirect_stderr(sys.stdout))
        introduce(repository.root, model)
        code = run_survey(repository.root, model, journal=journal, run_id=run_id)
        if code != MISUSE:
            say_command(shlex.join(show[:2]), shlex.join((*show[2:], "--no-answer")))
            upshot([*show, "--no-answer"])
            conclude(show, time.monotonic() - began)
    return code


def introduce(root: Path, model: str) -> None:
    """Say what is about to happen, and what of it is real."""
    print(f"An agent surveys the git repository {root}.")
    print("The tools, what they return, HTTP, limits, failures and the log are real.")
    if model != SCRIPTED:
        print(f"The model is {model}, asked at its provider.")
        return
    print("The model is SCRIPTED: a simulator on loopback plays a scenario, which can only")
    print("quote what the tools returned. No key is needed, and nobody is paid.")
    print("With a key in the environment, a real one: make demo MODEL=openai:gpt-5")


def run_survey(root: Path, model: str, *, journal: Path, run_id: str) -> int:
    """Run the agent in the repository's folder, so that a later resume finds the same one."""
    agent = HERE / "agent.py"
    say_command(
        shlex.join(("run", f"{shown(agent)}:agent")),
        f'"{REQUEST}"',
        shlex.join(("--model", model_shown(model))),
        shlex.join(("--journal", shown(journal))),
    )
    with chdir(root):
        return upshot(
            [
                *("run", f"{agent}:agent", REQUEST, "--model", model, "--journal", str(journal)),
                *("--run-id", run_id, "--markdown", "--progress", progress_mode()),
            ]
        )


def say_command(*parts: str) -> None:
    """Say what is done next, as it would be typed, a part on a line."""
    print(f"\n$ {shlex.quote(program())} " + " \\\n    ".join(parts) + "\n", flush=True)


def conclude(show: list[str], took_s: float) -> None:
    """Say how to see all of it again."""
    print(f"\nThat took {took_s:.1f} s. The same run again, report included:")
    print(f"  {shlex.join((program(), *show))}", flush=True)


def progress_mode() -> str:
    """A picture on a terminal, line by line in a pipe."""
    return "auto" if sys.stderr.isatty() else "lines"


def program() -> str:
    """The ``upshot`` command as it can be typed here."""
    if shutil.which("upshot"):
        return "upshot"
    return shown(Path(sys.executable).with_name("upshot"))


def model_shown(model: str) -> str:
    """The model's name with the scenario as it can be typed here."""
    return f"sim:{shown(HERE / 'scenario.json')}" if model == SCRIPTED else model


def shown(path: Path) -> str:
    """A path from the current folder where it lies in it, else as a whole."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


if __name__ == "__main__":
    sys.exit(main())
