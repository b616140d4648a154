"""Stream operators: one file or folder each, named like its plan node."""
