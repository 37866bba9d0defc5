"""Errors that reach a user. Each one is a single line that says what is wrong and what to do."""

from __future__ import annotations


class BraidcastError(Exception):
    """The base of every error that braidcast raises on purpose."""


class TopologyError(BraidcastError):
    """A set of groups on which the protocol cannot run."""


class OptionError(BraidcastError):
    """An option that does not exist or a value that it cannot take."""
