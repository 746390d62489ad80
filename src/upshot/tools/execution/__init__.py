"""Running the calls of a reply, each to one outcome."""

__all__: list[str] = []
