"""The journal in a SQLite file: its tables, its writer thread, its queries and its leases."""

__all__: list[str] = []
