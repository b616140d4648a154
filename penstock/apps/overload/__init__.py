"""Overload: more trades come than can be processed; what contracts of queries do about it, measured against fixed strategies."""
