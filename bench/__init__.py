"""Speed budgets, measured by hand: ``make bench``."""
