"""Compares what was measured of queries with their contracts, and decides what to change."""
