"""Launching: from a command line, or a run's log, to the run's agent."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..contract import AgentSpec
from ..engines import MachineEngine
from ..errors import Misuse
from ..runs import ResumeOptions
from .launch import Launch
from .loading import AnyAgent, Target, load_agent, load_tools
from .model_source import absolute_model
from .story import Story

__all__ = ["Asked", "Launching", "load_launch", "new_launch", "old_launch"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a command line says of the agent; "" is what was not said.

    Attributes:
        target: ``FILE.py:agent`` or an agent file.
        model: As for ``--model``.
        base_url: As for ``--base-url``.
        tools: Files with the tools that an agent file names.
    """

    target: str = ""
    model: str = ""
    base_url: str = ""
    tools: Sequence[str] = ()


class Launching:
    """The agent of a run that goes on; its files are read once, at the first use.

    Args:
        story: The run.
        asked: What shall be other than when it was started.
    """

    def __init__(self, story: Story, asked: Asked) -> None:
        self._story = story
        self._asked = asked

    @cached_property
    def launch(self) -> Launch:
        """How the run was started, with what the command line says otherwise.

        Raises:
            Misuse: It was not started by the command, and no agent is named.
        """
        return old_launch(self._story, self._asked)

    @cached_property
    def loaded(self) -> tuple[AnyAgent, ResumeOptions]:
        """The agent, and the options that go with it.

        Raises:
            Misuse: A file or a name is not there.
        """
        with self.folder():
            return load_launch(self.launch)

    @property
    def lost_folder(self) -> str:
        """The folder where the run was started, "" where it is there or was not kept."""
        folder = self.launch.folder
        return "" if not folder or Path(folder).is_dir() else folder

    @contextmanager
    def folder(self) -> Generator[None]:
        """Be where the run was started: relative paths of its tools count from there."""
        folder = self.launch.folder
        with chdir(folder if folder and not self.lost_folder else "."):
            yield


def new_launch(asked: Asked) -> Launch:
    """What a run's log keeps of a command line."""
    target = Target(asked.target)
    return Launch(
        file=str(target.file),
        agent=target.name,
        model=absolute_model(asked.model),
        base_url=asked.base_url,
        tools=_absolute(asked.tools),
        folder=str(Path.cwd()),
    )


def old_launch(story: Story, asked: Asked) -> Launch:
    """How the run was started, with what the command line says otherwise.

    Raises:
        Misuse: It was not started by the command, and no agent is named.
    """
    old = None if story.started is None else Launch.of(story.started.options)
    new = new_launch(asked) if asked.target else None
    base = old or new
    if base is None:
        raise Misuse(
            f"run {story.run_id} was not started by this command: say which agent it has, after "
            f"its id, such as {story.run_id} FILE.py:agent"
        )
    changes: dict[str, Any] = {}
    if new is not None:
        changes |= {"file": new.file, "agent": new.agent}
    if asked.model:
        # The old server need not know the new model.
        changes |= {"model": absolute_model(asked.model), "base_url": ""}
    if asked.base_url:
        changes["base_url"] = asked.base_url
    if asked.tools:
        changes["tools"] = _absolute(asked.tools)
    return replace(base, **changes)


def _absolute(files: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(Path(file).absolute()) for file in files)


def load_launch(launch: Launch) -> tuple[AnyAgent, ResumeOptions]:
    """The agent that *launch* names, and the options that go with it.

    Raises:
        Misuse: A file or a name in it is not there.
    """
    target = Target(launch.file if not launch.agent else f"{launch.file}:{launch.agent}")
    files = [Path(file) for file in launch.tools]
    agent = load_agent(target, files)
    options: ResumeOptions = {"launch": launch.to_json()}
    if isinstance(agent, AgentSpec) and agent.tools and not launch.tools:
        raise Misuse(f"agent {agent.id!r} names tools: say which file has them, --tools FILE.py")
    if files and not isinstance(agent.engine, MachineEngine):
        options["tools"] = load_tools(files)
    return agent, options
