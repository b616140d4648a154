"""PJoin: joins without windows whose state shrinks when values are closed."""
