"""How rows of a join find their partners."""
