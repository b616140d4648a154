"""Joins on any equalities: which input is looked into first follows the data."""
