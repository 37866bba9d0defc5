"""Whom a certificate names, and which ids are a client's own."""

from __future__ import annotations

import pytest

from braidcast.wire.subject import CLIENT_ID_BIT, Subject, is_id_of, new_client_id, subject_in


@pytest.mark.parametrize(
    ("uris", "subject"),
    [
        (["braidcast:node:n1"], Subject("node", "n1")),
        (["https://example.org/x", "braidcast:client:alice"], Subject("client", "alice")),
        ([], None),
        (["spiffe://x/node/n1"], None),
        (["braidcast:node:n1", "braidcast:client:n1"], None),
        (["braidcast:node:n1", "braidcast:node:n2"], None),
        (["braidcast:node:n1", "braidcast:"], None),
        (["braidcast:admin:root"], None),
        (["braidcast:node:"], None),
        (["braidcast:node:*"], None),
        (["braidcast:node:n1:n2"], None),
        (["braidcast:node:n1\n"], None),
    ],
)
def test_certificate_names_exactly_one_node_or_client_or_nobody(uris: list[str], subject: Subject | None) -> None:
    assert subject_in(uris) == subject
    assert subject is None or subject_in([subject.uri]) == subject


def test_ids_of_a_name_are_its_own_and_of_no_other() -> None:
    mine = {new_client_id("alice") for _ in range(100)}
    assert len(mine) > 90
    assert all(is_id_of(id, "alice") and not is_id_of(id, "alicf") and not is_id_of(id, "") for id in mine)
    assert all(CLIENT_ID_BIT <= id < 2 * CLIENT_ID_BIT for id in mine)


def test_edges_of_the_ids_of_a_name() -> None:
    lowest = new_client_id("alice") >> 22 << 22
    assert is_id_of(lowest, "alice")
    assert is_id_of(lowest + (1 << 22) - 1, "alice")
    assert not is_id_of(lowest - 1, "alice")
    assert not is_id_of(lowest + (1 << 22), "alice")
    assert not is_id_of(lowest - CLIENT_ID_BIT, "alice")


def test_name_has_the_same_ids_for_ever() -> None:
    """Another hash would take the sessions of every client away from it."""
    assert new_client_id("alice") >> 22 == 0x1ABDFCAE4A9


def test_ids_without_a_name_are_drawn_by_chance() -> None:
    ids = {new_client_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(CLIENT_ID_BIT <= id < 2 * CLIENT_ID_BIT for id in ids)
