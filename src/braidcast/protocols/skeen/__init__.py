"""Skeen's protocol, as in Figure 1 of the white-box paper."""

from braidcast.protocols.skeen.process import Options, Propose, Skeen

__all__ = ["Options", "Propose", "Skeen"]
