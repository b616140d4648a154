"""NumPy and Numba primitives on columns; each fast one has a plain twin in the tests."""
