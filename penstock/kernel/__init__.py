"""The per-shard machine: contracts of operators and policies, graph, queues, executor, frontiers, segments."""
