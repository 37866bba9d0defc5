"""What a configuration says of certificates, rights and listening without TLS, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import ClusterConfig, ConfigError, parse_config
from braidcast.settings.tls import Credentials

GOOD = """\
[cluster]
name = "shop"
protocol = "whitebox"
[groups]
accounts = ["n1"]
stock = ["n2"]
[nodes.n1]
address = "10.0.0.1:7101"
[nodes.n2]
address = "localhost:7101"
certificate = "n2.pem"
key = "/keys/n2.key"
[tls]
authority = "certs/authority.pem"
identity = "shop"
[clients.shop]
send = ["accounts", "stock"]
status = true
[clients."*"]
read = ["*"]
"""


def parsed(text: str = GOOD) -> ClusterConfig:
    return parse_config(text, "/etc/shop/c.toml", protocol_named)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return [problem.removeprefix("/etc/shop/c.toml:") for problem in caught.value.problems]


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_paths_are_relative_to_the_file_and_beside_the_authority_if_nothing_is_said() -> None:
    config = parsed()
    authority = Path("/etc/shop/certs/authority.pem")
    beside = authority.parent
    assert config.credentials_of_node("n1") == Credentials(authority, beside / "node-n1.pem", beside / "node-n1.key")
    assert config.credentials_of_node("n2") == Credentials(authority, Path("/etc/shop/n2.pem"), Path("/keys/n2.key"))
    same = parsed(edited("[tls]\n", '[tls]\ncertificate = "/own.pem"\nkey = "/own.key"\n'))
    assert same.credentials_of_node("n1") == Credentials(authority, Path("/own.pem"), Path("/own.key"))
    assert same.credentials_of_node("n2") == config.credentials_of_node("n2")


def test_rights_are_those_of_the_file_and_none_where_it_says_nothing() -> None:
    clients = parsed().clients
    assert (clients["shop"].send, clients["shop"].read, clients["shop"].status) == (("accounts", "stock"), None, True)
    assert (clients["*"].send, clients["*"].read, clients["*"].status) == (None, ("*",), False)


def test_fingerprint_does_not_change_with_rights_and_certificates() -> None:
    without = edited("[groups]", 'without_tls = "anyone may send and read"\n[groups]').partition("[tls]")[0]
    for line in ('certificate = "n2.pem"\n', 'key = "/keys/n2.key"\n'):
        without = without.replace(line, "")
    assert parsed(without).fingerprint == parsed().fingerprint == parsed(edited("status = true\n", "")).fingerprint


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"])
def test_without_tls_nodes_may_listen_on_this_machine(address: str) -> None:
    text = f"[cluster]\nname = 'x'\nprotocol = 'whitebox'\n[groups]\ng = ['n']\n[nodes.n]\naddress = '{address}'\n"
    assert parsed(text).tls is None


@pytest.mark.parametrize("address", ["10.0.0.1:1", "[fe80::1]:1", "localhost.example:1", "db:1"])
def test_without_tls_nodes_listen_elsewhere_only_if_the_file_says_so_in_so_many_words(address: str) -> None:
    text = f"[cluster]\nname = 'x'\nprotocol = 'whitebox'\n[groups]\ng = ['n']\n[nodes.n]\naddress = '{address}'\n"
    assert problems(text) == [
        f"7: node n listens at {address}, where everybody who reaches it could send and read: add [tls], or write "
        f'without_tls = "anyone may send and read" under [cluster]'
    ]
    assert parsed(text.replace("[groups]", 'without_tls = "anyone may send and read"\n[groups]')).tls is None
    assert parsed(f"{text}[tls]\nauthority = 'a.pem'\n").tls is not None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('authority = "certs/authority.pem"\n', "", '13: [tls] has no authority: add authority = '
         '"certs/authority.pem"'),
        ("certs/authority.pem", "~/a", '14: tls.authority is "~/a", and ~ is not expanded: write the whole path'),
        ('identity = "shop"', 'identity = "*"', '15: tls.identity takes the name of a client, not "*": write identity '
         '= "alice"'),
        ('identity =', 'identify =', "15: there is no key identify in [tls]: did you mean identity?"),
        ('[tls]\n', '[tls]\nkey = "k"\n', "14: [tls] has key, but no certificate: add it, the two belong together"),
        ('certificate = "n2.pem"\n', "", "11: [nodes.n2] has key, but no certificate: add it, the two belong together"),
        ('key = "/keys/n2.key"\n', "", "11: [nodes.n2] has certificate, but no key: add it, the two belong together"),
        ('"accounts", "stock"]', '"accounts", "stick"]', "17: client shop may send group stick, which is not under "
         "[groups]: did you mean stock?"),
        ('read = ["*"]', 'read = ["?"]', '20: client "*" may read group "?", which is not under [groups]: name one of '
         'them, or "*" for all'),
        ('read = ["*"]', 'read = "*"', '20: clients."*".read takes a list of names of groups, not "*": write read = '
         '["*"]'),
        ('read = ["*"]', "read = [1]", '20: clients."*".read takes a list of names of groups, not an array: write read '
         '= ["*"]'),
        ("status = true", 'status = "yes"', '18: clients.shop.status takes true or false, not "yes": write status = '
         "false"),
        ("status = true", "status = 1", "18: clients.shop.status takes true or false, not 1: write status = false"),
        ("status = true", "sends = []", "18: there is no key sends in [clients.shop]: did you mean send?"),
        ("[clients.shop]", '[clients."the shop"]', '16: "the shop" cannot be the name of a client: use 1 to 63 '
         "letters, digits, - and _, a letter or digit first"),
        ("[clients.shop]\nsend", "[clients]\nshop", '17: clients.shop takes a table, not an array: write '
         "[clients.shop] and its keys below"),
    ],
)  # fmt: skip
def test_problem_has_its_line_and_says_what_to_do(old: str, new: str, says: str) -> None:
    assert problems(edited(old, new))[0] == says


def test_certificates_of_all_clients_cannot_be_one() -> None:
    assert problems(f'{GOOD}certificate = "c"\nkey = "k"\n') == [
        f'{line}: [clients."*"] is for clients of any name: {key} belongs under [clients.NAME]'
        for line, key in ((21, "certificate"), (22, "key"))
    ]


def test_rights_and_certificates_without_tls_are_errors() -> None:
    tls = '[tls]\nauthority = "certs/authority.pem"\nidentity = "shop"\n'
    without = edited("10.0.0.1", "127.0.0.1").replace(tls, "")
    assert problems(without) == [
        "11: nodes.n2.certificate is for TLS: add [tls] with the certificate of its authority",
        "13: [clients] says what clients may do, and without TLS nobody knows who they are: add [tls]",
    ]
