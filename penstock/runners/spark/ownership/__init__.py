"""Whose a directory of answers is."""
