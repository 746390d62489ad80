"""Modes: whether the artifacts of a result are of media types that the caller accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ..contract import Artifact, Origin, Part, RequestConfig, RunWarning, Text

__all__ = ["refused_modes"]


def refused_modes(
    artifacts: Iterable[Artifact], config: RequestConfig | None
) -> Iterator[RunWarning]:
    """Warn of each artifact with a part of a media type that the caller does not accept.

    Args:
        artifacts: Of the result.
        config: What the caller can take; None takes all. ``image/*`` takes all images.
    """
    accepted = () if config is None else config.accepted_output_modes
    if not accepted:
        return
    patterns = [mode.partition(";")[0].strip().lower() for mode in accepted]
    for artifact in artifacts:
        modes = dict.fromkeys(_mode_of(part) for part in artifact.parts)
        refused = [
            mode for mode in modes if mode and not any(fnmatchcase(mode, p) for p in patterns)
        ]
        if refused:
            yield RunWarning(
                code="output_mode",
                message=f"artifact {artifact.name!r} has parts of {', '.join(refused)}, "
                f"and the request accepts {', '.join(accepted)}",
                origin=Origin.ENGINE,
            )


def _mode_of(part: Part) -> str:
    """The media type of *part*, "" where it is unknown."""
    if isinstance(part, Text):
        return "text/plain"
    return str(getattr(part, "media_type", "")).partition(";")[0].strip().lower()
