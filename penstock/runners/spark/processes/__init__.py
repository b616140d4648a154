"""The processes of Spark: its session, its Java, and the Python processes in which tasks run."""
