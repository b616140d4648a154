"""The in-process host: exact, deterministic, without a JVM."""
