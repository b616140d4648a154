"""Scalar expressions, parsed once, with three readings that agree: vectorised evaluator, Spark SQL text, intervals."""
