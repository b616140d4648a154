"""Scheduling strategies: one per file, listed in `table`.

Those that rank operators build on `ranked`, those that serve paths or segments on `stretches`; `trees`, `capacities` and
`segmentation` reckon, `starvation` helps what would wait for ever.
"""
