"""A Kafka broker of one node, for tests and tools: its files by name from a Maven repository, its process, its topics."""
