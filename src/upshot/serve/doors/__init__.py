"""Doors of a site: one module for each protocol.

Each has ``routes(site)``; ``lifespan(site)`` too where something has to be open while it serves.
"""
