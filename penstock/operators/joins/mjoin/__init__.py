"""Multiway joins with one pipeline of probes per input, each in an order of its own that may change at any time."""
