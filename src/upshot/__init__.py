"""upshot."""

__all__ = []
