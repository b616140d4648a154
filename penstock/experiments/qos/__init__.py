"""Published experiments on the run-time optimiser."""
