"""What can be proved of a plan before it runs."""
