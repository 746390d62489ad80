"""From what a model wrote to arguments that fit the schema."""

__all__: list[str] = []
