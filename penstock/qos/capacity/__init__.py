"""Queueing model of continuous queries: how long answers take, what memory they need, and which rate is too much."""
