"""Models asked through client libraries of others: LiteLLM and AISuite."""

__all__: list[str] = []
