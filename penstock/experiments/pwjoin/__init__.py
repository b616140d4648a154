"""PWJoin: window joins that also use punctuations."""
