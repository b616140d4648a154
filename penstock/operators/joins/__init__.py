"""Joins of streams: an operator a file, all of them a `StoringJoin`; `storing/` keeps rows, `matching/` finds partners."""
