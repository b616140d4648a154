"""When rows of a join go, and what may be said of them behind it: windows, punctuations, violations."""
