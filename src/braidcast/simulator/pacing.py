"""The options of a run: time-outs that suit its network, and before these what somebody said in so many words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braidcast.core.errors import OptionError
from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol


def paced_options(protocol: Protocol, said: Mapping[str, str], delay: Ticks | None) -> Any:
    """Options paced to a network with that delay (`None`: not at all), with all that was said as it was said."""
    if delay is None:
        return protocol.parse_options(said)
    try:
        paced = protocol.paced(protocol.options(), delay)
    except ValueError as error:
        raise OptionError(f"{protocol.name} cannot be paced to a delay of {delay}: {error}") from None
    protocol.parse_values(said)  # what cannot be read has nothing to do with the pace
    try:
        return protocol.parse_options(said, paced)
    except OptionError as error:
        raise OptionError(f"{error}, with time-outs for a delay of {delay}: set both") from None
