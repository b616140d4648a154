"""One order of the rows of several inputs, for windows that count rows."""
