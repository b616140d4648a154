"""Rules that change a plan and not its answers: one file each, their order in `table`."""
