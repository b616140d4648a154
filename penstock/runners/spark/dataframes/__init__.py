"""Calls on DataFrames: `ps.join`, `ps.aggregate`, `ps.filter`, `ps.match`, and what they take as a stream."""
