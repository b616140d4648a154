"""Adaptive orders of filters: convergence, overhead and adaptivity of A-Greedy, Sweep, Independent and LocalSwaps."""
