"""The joins of the literature to the letter, over items in memory: what the reproductions measure."""
