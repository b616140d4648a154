"""Burst: the load doubles for a while; the same questions under two strategies, side by side."""
