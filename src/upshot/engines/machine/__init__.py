"""The machine engine: a state machine read from YAML or JSON, and how it is run."""

__all__: list[str] = []
