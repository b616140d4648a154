"""Process models, and the constraints that every run of them satisfies."""
