"""Mechanisms that at least two protocols use, named by mechanism."""
