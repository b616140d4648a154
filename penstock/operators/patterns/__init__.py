"""Event patterns: sequence scan and construction over stacks, runs for repetition and contiguity."""
