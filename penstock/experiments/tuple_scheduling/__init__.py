"""Scheduling arrivals by profit and deadlines [wu2010]: who answers most of what matters in time."""
