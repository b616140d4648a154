"""What a person at a terminal sees of a run, and how it hears Ctrl-C."""
