"""Draws the table."""
def write_pictures(table, folder):
    raise NotImplementedError
