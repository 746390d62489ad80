"""Doors of a site: one module for each protocol.

Each has ``routes(site)``, and ``lifespan(site)`` if it needs something open while it serves.
"""
