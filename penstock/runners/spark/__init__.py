"""The production host: one shard per hash bucket inside transformWithState. The only importer of pyspark."""
