"""Conjunctions that reorder themselves: profiles of rejected rows, the policies that read them, and the operator."""
