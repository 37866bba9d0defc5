"""The registry hands out protocols that a driver can use without knowing them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from braidcast.cli.registry import PROTOCOLS, UnknownProtocol, protocol_named
from braidcast.core.process import Outbox
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology

SOURCE = Path(__file__).parents[2] / "src" / "braidcast"


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_every_protocol_makes_a_process_from_its_defaults(protocol: Protocol) -> None:
    topology = Topology.of_sizes(1, 1)
    process = protocol.make(Outbox(0), topology, protocol.options())
    process.start()
    assert process.role in ("leader", "member")


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_every_option_is_documented_and_has_a_default(protocol: Protocol) -> None:
    source = (SOURCE / "protocols" / protocol.name / "options.py").read_text() if protocol.name == "whitebox" else ""
    for field in dataclasses.fields(protocol.options):
        assert field.default is not dataclasses.MISSING
        assert f"{field.name}:" in source


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_variants_of_a_campaign_are_options_of_the_protocol(protocol: Protocol) -> None:
    for variant in protocol.variants:
        protocol.paced(protocol.parse_options(variant), 10)


def test_unknown_protocol_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownProtocol, match="no protocol 'paxos': choose skeen or whitebox"):
        protocol_named("paxos")


def test_only_the_registry_imports_protocols() -> None:
    importing = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "braidcast.protocols" in path.read_text() and not path.is_relative_to(SOURCE / "protocols")
    ]
    assert importing == ["cli/registry.py"]
