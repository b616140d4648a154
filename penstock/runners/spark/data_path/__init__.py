"""What rows pass on Spark, from a source to a destination: reading, packing, the stage of the shards, its state, sinks."""
