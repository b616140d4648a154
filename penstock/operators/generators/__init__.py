"""Operators that make punctuations for streams whose sources send none."""
