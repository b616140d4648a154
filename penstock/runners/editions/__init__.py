"""Applications that change under their checkpoint: what they consist of at a time, and what a change means for their state."""
