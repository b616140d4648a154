"""Text to catalog: a sqlglot dialect for streams and continuous queries."""
