"""Writes graphs and machines as Mermaid: boxes, frames around boxes, and labelled arrows.

Source:
    Mermaid, flow chart syntax, read 2025-11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple


class Shape(NamedTuple):
    """The brackets that give a box its shape."""

    left: str = "["
    right: str = "]"


AGENT = Shape("([", "])")
QUESTION = Shape("{{", "}}")
# Added to the name of a frame.
PARALLEL = " (parallel)"
FOR_EACH = " (for each)"


class Box(NamedTuple):
    """One node of a chart.

    Attributes:
        label: Its text.
        shape: Its outline, if nothing is inside it.
        inside: What it frames: a chart, or boxes without arrows.
    """

    label: str
    shape: Shape = Shape()
    inside: Chart | Sequence[Box] = ()


class Chart(NamedTuple):
    """A flow chart.

    Attributes:
        boxes: By name.
        arrows: Source, target and label, "" for none.
        start: The name of the first box.
        ends: Boxes that are ends although arrows leave them.
    """

    boxes: Mapping[str, Box]
    arrows: Sequence[tuple[str, str, str]]
    start: str
    ends: Collection[str] = ()

    def to_mermaid(self) -> str:
        """Return the chart as Mermaid text."""
        return "\n".join(["flowchart TD", *_chart(self, prefix="n", indent="    ")]) + "\n"


def _chart(chart: Chart, *, prefix: str, indent: str) -> Iterator[str]:
    # Names may contain anything, and a word such as "end" breaks the syntax, so ids are numbers.
    ids = {name: f"{prefix}{number}" for number, name in enumerate(chart.boxes, start=1)}
    yield f"{indent}{prefix}_start((start)) --> {ids[chart.start]}"
    for name, box in chart.boxes.items():
        yield from _box(ids[name], box, indent)
    for source, target, label in chart.arrows:
        yield f"{indent}{ids[source]} -->{f'|{_text(label)}|' if label else ''} {ids[target]}"
    sources = {source for source, *_ in chart.arrows}
    for name in chart.boxes:
        if name not in sources or name in chart.ends:
            yield f"{indent}{ids[name]} --> {ids[name]}_end((end))"


def _box(id: str, box: Box, indent: str) -> Iterator[str]:
    if not box.inside:
        yield f"{indent}{id}{box.shape.left}{_text(box.label)}{box.shape.right}"
        return
    yield f"{indent}subgraph {id}[{_text(box.label)}]"
    inner = f"{indent}    "
    if isinstance(box.inside, Chart):
        yield from _chart(box.inside, prefix=f"{id}_", indent=inner)
    else:
        for number, one in enumerate(box.inside, start=1):
            yield from _box(f"{id}_{number}", one, inner)
    yield f"{indent}end"


def _text(text: str) -> str:
    marks = text.replace("#", "#35;").replace('"', "#quot;")
    marks = marks.replace("<", "#lt;").replace(">", "#gt;")
    return f'"{" ".join(marks.split())}"'
