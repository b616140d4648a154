"""WJoin, PWJoin and their multiway forms: window joins on one key, blind to punctuations and not."""
