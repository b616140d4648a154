"""Scheduling strategies: one per file, listed in `table`."""
