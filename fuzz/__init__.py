"""Random replies for the readers: ``make fuzz``."""
