"""What the values of the contract are made of: struct bases, enums, JSON, checks and reprs."""

__all__: list[str] = []
