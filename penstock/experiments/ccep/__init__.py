"""Constraint-aware event patterns: what a process allows ends hopeless traces early."""
