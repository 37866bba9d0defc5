"""Atomic multicast for Python: one consistent order across partitions, without a global sequencer."""

__version__ = "0.1.0"
