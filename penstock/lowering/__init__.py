"""From logical plan to what runs: operators (`table`), the part Catalyst keeps (`prefix`), stages and exchanges (`stages`)."""
