"""Stocks: rising runs and V shapes among prices, by `MATCH_RECOGNIZE`."""
