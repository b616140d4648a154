"""Multiway PWJoin: one lookup per tuple, however many inputs."""
