"""Grouping with aggregates over every type of window."""
