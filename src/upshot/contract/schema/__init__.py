"""The contract in other languages: what its types declare, as JSON Schema and TypeScript."""

__all__: list[str] = []
