"""White-box atomic multicast, whole: normal case, retry, leader recovery, catch-up, collection."""

from braidcast.protocols.whitebox.options import Options
from braidcast.protocols.whitebox.process import WhiteBox

__all__ = ["Options", "WhiteBox"]
