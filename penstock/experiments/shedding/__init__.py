"""Load shedding: published experiments in virtual time."""
