"""Burst: the load doubles for a while; the same queries under two strategies, side by side."""
