"""PWJoin and its family, item by item: windows and punctuations together, with the structures and counters of the source."""
