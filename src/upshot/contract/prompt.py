"""Prompts that are kept as files, so that the log says which version a run used."""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from upshot.contract.base.structs import Value
from upshot.errors import Misuse

_DIGEST_CHARS = 12


class Prompt(Value, frozen=True, kw_only=True):
    """Instructions that were read from a file; ``load_prompt`` makes them.

    ``Agent(instructions=)`` takes one, and a function of the run that makes the instructions may
    return one. The log names it in ``ModelStarted.prompt``.

    Attributes:
        text: The text, with the values filled in so far.
        name: The file, as it was named.
        digest: The start of the SHA-256 digest of the file's text, before any value is filled in.
    """

    text: str
    name: str
    digest: str

    @property
    def version(self) -> str:
        """The name and the digest, such as "prompts/desk.md@1f3a9c2b7d04"."""
        return f"{self.name}@{self.digest}"

    def fill(self, /, **values: object) -> Prompt:
        """Return the prompt with *values* in place of ``$name`` or ``${name}``; ``$$`` is a "$".

        Raises:
            Misuse: The text names another value, or a value is named nowhere.
        """
        template = Template(self.text)
        named = set(template.get_identifiers())
        if not template.is_valid():
            raise Misuse(f'{self.name} has a "$" without a name: write "$$" for the character')
        if unknown := sorted(named ^ set(values)):
            one = unknown[0]
            what = f"needs a value for ${one}" if one in named else f"has no ${one} to fill in"
            raise Misuse(f"the prompt {self.name} {what}: it names {_listed(named)}")
        return Prompt(text=template.substitute(values), name=self.name, digest=self.digest)

    def __call__(self, run: Any) -> str:
        """Return the text, whatever the run: a prompt is instructions."""
        return self.text


def load_prompt(path: str | PathLike[str], /, **values: object) -> Prompt:
    """Read a prompt from a text file; ``Agent(instructions=load_prompt("prompts/desk.md"))``.

    Args:
        path: The file, in UTF-8. Space around its text is left out.
        values: Values for the file's ``$name`` or ``${name}``, all of them. Without any, the text
            is taken as it is; fill values in later, for each run, with ``Prompt.fill``.

    Raises:
        Misuse: The file cannot be read or is empty, or the values do not match its names.
    """
    name = Path(path).as_posix()
    try:
        text = Path(path).read_text("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise Misuse(f"the prompt {name} is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Misuse(f"the prompt {name} cannot be read: {reason}") from error
    if not text:
        raise Misuse(f"the prompt {name} is empty: write the instructions into it")
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    prompt = Prompt(text=text, name=name, digest=digest)
    return prompt.fill(**values) if values else prompt


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
