"""What a docstring says of a function and its parameters."""

from __future__ import annotations

import inspect
import re

__all__ = ["parse_docstring"]

# Without one of these there is nothing but text, and griffe need not be loaded.
_SECTIONS = re.compile(
    r"^\s*(:param|:return|:raise|\w[\w ]*:\s*$|-{3,}\s*$)", re.MULTILINE | re.IGNORECASE
)
_OPTIONS = {"warnings": False}


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Read a docstring in Google, NumPy or Sphinx style.

    Returns:
        The text before the first section, and the description of each parameter. Sections
        on results and errors are for people who read code and are left out. Never raises.
    """
    if not text:
        return "", {}
    text = inspect.cleandoc(text)
    if not _SECTIONS.search(text):
        return text, {}
    import griffe

    sections = griffe.parse_auto(
        griffe.Docstring(text),
        per_style_options={"google": _OPTIONS, "numpy": _OPTIONS, "sphinx": _OPTIONS},  # pyright: ignore[reportArgumentType]  # its types ask for every option of a style
    )
    kinds = griffe.DocstringSectionKind
    texts: list[str] = []
    described: dict[str, str] = {}
    for section in sections:
        if section.kind is kinds.text and not described:
            texts.append(str(section.value))
        elif section.kind in (kinds.parameters, kinds.other_parameters):
            for item in section.value:
                described[item.name.lstrip("*")] = " ".join(item.description.split())
    return "\n\n".join(texts).strip(), described
