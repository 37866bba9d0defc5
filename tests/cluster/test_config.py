"""The configuration of a cluster: what it says, and what is said about a wrong one, each problem with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidcast.cli.registry import PROTOCOLS, protocol_named
from braidcast.cluster.config import (
    ClusterConfig,
    ConfigError,
    Limits,
    Timing,
    UnknownName,
    load_config,
    parse_config,
)
from braidcast.core.errors import TopologyError
from braidcast.core.topology import Topology
from braidcast.settings.toml_lines import KeyPath, key_lines, settings_of, toml_key, toml_value

GOOD = """\
[cluster]
name = "shop"
protocol = "whitebox"

[cluster.options]
retry_ticks = 90_000
prevote = false

[groups]
accounts = ["n1", "n2", "n3"]
stock = ["n3", "n1", "spare"]

[nodes.n1]
address = "127.0.0.1:7101"

[nodes.n2]
address = "127.0.0.1:7102"
data = "/srv/n2"

[nodes.n3]
address = "[::1]:7103"
unix = "run/n3.sock"

[nodes.spare]
address = "Db-4.Example:7101"

[limits]
connections_max = 7

[timing]
ping_ms = 100
"""


def parsed(text: str = GOOD) -> ClusterConfig:
    return parse_config(text, "/etc/shop/c.toml", protocol_named)


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def problems(text: str) -> list[str]:
    """What is wrong with a text, without the name of the file."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "/etc/shop/c.toml", protocol_named)
    for problem in caught.value.problems:
        assert problem.startswith("/etc/shop/c.toml:")
        assert "\n" not in problem
    return [problem.removeprefix("/etc/shop/c.toml:") for problem in caught.value.problems]


# -- what a sound file says --------------------------------------------------------------------------------------------


def test_processes_are_numbered_in_the_order_of_groups_and_members() -> None:
    config = parsed()
    assert config.topology.groups == ((0, 1, 2), (3, 4, 5))
    assert [group.pids for group in config.groups] == [(0, 1, 2), (3, 4, 5)]
    assert [config.node_of(pid) for pid in config.topology.pids] == ["n1", "n2", "n3", "n3", "n1", "spare"]
    assert [config.pids_of(node) for node in config.nodes] == [(0, 4), (1,), (2, 3), (5,)]
    assert [config.group_number(name) for name in ("accounts", "stock")] == [0, 1]
    assert [config.group_name(number) for number in (0, 1)] == ["accounts", "stock"]


def test_options_limits_and_times_are_those_of_the_file_or_the_defaults() -> None:
    config = parsed()
    assert config.options == PROTOCOLS["whitebox"].parse_options({"retry_ticks": "90000", "prevote": "off"})
    assert config.option_pairs == {"retry_ticks": "90000", "prevote": "false"}
    assert config.limits == Limits(connections_max=7)
    assert config.timing == Timing(ping_ms=100)
    assert (config.durability, config.history, config.when_unavailable) == ("disk", None, "wait")


def test_paths_are_relative_to_the_file() -> None:
    config = parsed(edited('"shop"', '"shop"\nhistory = "../history"'))
    assert config.history == Path("/etc/shop/../history")
    assert [str(node.data) for node in config.nodes.values()] == [
        "/etc/shop/data/n1", "/srv/n2", "/etc/shop/data/n3", "/etc/shop/data/spare",
    ]  # fmt: skip
    assert config.nodes["n3"].unix == Path("/etc/shop/run/n3.sock")


def test_addresses_are_canonical() -> None:
    nodes = parsed(edited('"[::1]:7103"', '"[0::1]:07103"')).nodes
    assert [node.address for node in nodes.values()][2:] == ["[::1]:7103", "db-4.example:7101"]
    assert (nodes["n3"].host, nodes["n3"].port) == ("::1", 7103)
    assert [node.machine for node in nodes.values()] == ["localhost", "localhost", "localhost", "db-4.example"]
    nodes = parsed(edited('unix = "run/n3.sock"', 'peer_address = "[0::2]:7103"')).nodes
    assert [node.peer_address for node in nodes.values()] == [None, None, "[::2]:7103", None]


def test_a_name_that_the_cluster_does_not_have_is_answered_with_those_it_has() -> None:
    with pytest.raises(UnknownName, match="cluster shop has no node 'n9': choose n1 or n2 or n3 or spare"):
        parsed().pids_of("n9")
    with pytest.raises(UnknownName, match="cluster shop has no group 'x': choose accounts or stock"):
        parsed().group_number("x")


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(GOOD, encoding="utf-8-sig")
    marked = load_config(file, protocol_named)
    file.write_text(GOOD.replace("\n", "\r\n"), encoding="utf-8")
    assert load_config(file, protocol_named) == marked == replace(marked, topology=Topology((0,)))
    assert marked.path == file


# -- the fingerprint ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"shop"', '"shops"'),
        ('protocol = "whitebox"', 'protocol = "toy"'),
        ("stock =", "store ="),
        ('"n1", "n2", "n3"', '"n2", "n1", "n3"'),
        ("retry_ticks = 90_000", "retry_ticks = 90_001"),
        ("prevote = false", ""),
    ],
)
def test_fingerprint_changes_with_what_all_nodes_must_agree_on(old: str, new: str) -> None:
    toy = replace(PROTOCOLS["whitebox"], name="toy")
    other = parse_config(edited(old, new), "c.toml", lambda name: toy if name == "toy" else protocol_named(name))
    assert re.fullmatch("[0-9a-f]{16}", other.fingerprint)
    assert other.fingerprint != parsed().fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"127.0.0.1:7101"', '"10.0.0.1:1"'),
        ("/srv/n2", "/srv/elsewhere"),
        ("connections_max = 7", ""),
        ("ping_ms = 100", ""),
        ('"shop"', '"shop"\nhistory = "h"'),
        ("prevote = false", "prevote = 'no'\nchunk_entries = 256  # the default"),
    ],
)
def test_fingerprint_does_not_change_with_what_may_differ(old: str, new: str) -> None:
    assert parsed(edited(old, new)).fingerprint == parsed().fingerprint
    assert parse_config(GOOD, "elsewhere/d.toml", protocol_named).fingerprint == parsed().fingerprint


# -- what is wrong, one thing at a time --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # Sections and keys.
        ("[timing]", "[timng]", "30: there is no section [timng]: did you mean [timing]?"),
        ("[timing]", "[tls]", "30: there is no section [tls]: remove it, or use [cluster], [groups], [nodes], "
         "[limits], [timing]"),
        ("[cluster]", "ping_ms = 1\n[cluster]", "1: there is no key ping_ms outside a section: it belongs under "
         "[timing]"),
        ("connections_max", "conections_max", "28: there is no key conections_max in [limits]: did you mean "
         "connections_max?"),
        ("connections_max", "'a b'", '28: there is no key "a b" in [limits]: remove it, or use frame_bytes_max, '
         + ", ".join(list(settings_of(Limits))[1:])),
        ("connections_max", "ping_ms", "28: there is no key ping_ms in [limits]: it belongs under [timing]"),
        ('data = "/srv/n2"', 'dta = "x"', "18: there is no key dta in [nodes.n2]: did you mean data?"),
        ("[limits]", "[[limits]]", "27: limits takes a table, not an array: write [limits] and its keys below"),
        ("[nodes.spare]\naddress", "[nodes]\nspare", '25: nodes.spare takes a table, not "Db-4.Example:7101": write '
         "[nodes.spare] and its keys below"),
        ('name = "shop"\n', "", '1: [cluster] has no name: add name = "shop"'),
        ('protocol = "whitebox"\n', "", '1: [cluster] has no protocol: add protocol = "NAME"'),
        ('address = "127.0.0.1:7101"\n', "", '13: [nodes.n1] has no address: add address = "127.0.0.1:7101"'),
        # Values.
        ('"shop"', "3", '2: cluster.name takes 1 to 63 letters, digits, - or _, not 3: write name = "shop"'),
        ('"shop"', '"my shop"', "2: cluster.name takes 1 to 63 letters, digits, - or _, not \"my shop\": write "
         'name = "shop"'),
        ('"shop"', '"shop"\ndurability = "ram"', '3: cluster.durability takes "disk" or "memory", not "ram": write '
         'durability = "disk"'),
        ('"shop"', '"shop"\nhistory_detail = true', '3: cluster.history_detail takes "order" or "everything", not '
         'true: write history_detail = "order"'),
        ('"shop"', '"shop"\nwhen_unavailable = []', '3: cluster.when_unavailable takes "wait" or "refuse", not an '
         'array: write when_unavailable = "wait"'),
        ('"shop"', '"shop"\nhistory = ""', '3: cluster.history takes a path, not "": write history = "history"'),
        ('"shop"', '"shop"\nhistory = "~/h"', '3: cluster.history is "~/h", and ~ is not expanded: write the whole '
         "path"),
        ('"/srv/n2"', '"a\\u0000b"', '18: nodes.n2.data takes a path, not "a\\u0000b": write data = "data/n1"'),
        ("= 7\n", "= 7.5\n", "28: limits.connections_max takes a whole number from 1 to 1_000_000, not 7.5: write "
         "connections_max = 1_000"),
        ("= 7\n", "= true\n", "28: limits.connections_max takes a whole number from 1 to 1_000_000, not true: write "
         "connections_max = 1_000"),
        ("= 7\n", "= 0\n", "28: limits.connections_max takes a whole number from 1 to 1_000_000, not 0: write "
         "connections_max = 1_000"),
        ("ping_ms = 100", "ping_ms = 2024-01-01", "31: timing.ping_ms takes a whole number from 1 to 3_600_000, not "
         "2024-01-01: write ping_ms = 500"),
        # Numbers that do not fit each other.
        ("ping_ms = 100", "ping_ms = 1000", "31: timing.silence_ms_max is 2_000, but must be at least 2_001 "
         "(2 * ping_ms + 1): raise it or lower ping_ms"),
        ("ping_ms = 100", "ping_ms = 100\nreconnect_ms_min = 500\nreconnect_ms_max = 499", "33: "
         "timing.reconnect_ms_max is 499, but must be at least 500 (reconnect_ms_min): raise it or lower "
         "reconnect_ms_min"),
        ("= 7\n", "= 7\npayload_bytes_max = 16_777_216\n", "29: limits.frame_bytes_max is 16_777_216, but must be at "
         "least 16_809_984 (payload_bytes_max + 32_768): raise it or lower payload_bytes_max"),
        ("= 7\n", "= 7\npeer_buffer_bytes_max = 32769\n", "29: limits.peer_buffer_bytes_max is 32_769, but must be at "
         "least 16_777_216 (frame_bytes_max): raise it or lower frame_bytes_max"),
        ("= 7\n", "= 7\nclient_buffer_bytes_max = 32769\n", "29: limits.client_buffer_bytes_max is 32_769, but must "
         "be at least 16_777_216 (frame_bytes_max): raise it or lower frame_bytes_max"),
        # Protocol and options.
        ('"whitebox"', '"whiteboks"', "3: there is no protocol 'whiteboks': choose skeen or whitebox"),
        ("retry_ticks = 90_000", "retry = 1", "6: whitebox has no option 'retry': it has follower_delivery, "
         "heartbeat_ticks, suspect_ticks, retry_ticks, forget_ticks, sessions_max, prevote, chunk_entries, "
         "chunk_bytes, laggard_entries, laggard_bytes"),
        ("prevote = false", "prevote = 'maybe'", "7: whitebox option prevote takes on or off, not 'maybe'"),
        ("prevote = false", "prevote = 0.5", "7: cluster.options.prevote takes a string, a whole number, true or "
         "false, not 0.5: correct or remove it"),
        ("90_000", "0", "6: whitebox: option retry_ticks must be at least 1, not 0"),
        ("prevote = false", "heartbeat_ticks = 200_000", "7: whitebox: option suspect_ticks (150000) must exceed "
         "heartbeat_ticks (200000)"),
        ("[cluster.options]\nretry_ticks = 90_000\nprevote = false\n", 'options = "x"\n', "5: cluster.options takes a "
         'table, not "x": write [cluster.options] and its keys below'),
        # Groups.
        ('["n1", "n2", "n3"]', '"n1"', '10: groups.accounts takes a list of names of nodes: write accounts = '
         '["n1", ...]'),
        ('["n1", "n2", "n3"]', '["n1", 2]', '10: groups.accounts takes a list of names of nodes: write accounts = '
         '["n1", ...]'),
        ('["n1", "n2", "n3"]', "[]", "10: group accounts has no nodes: list those that host its replicas, or remove "
         "it"),
        ('["n1", "n2", "n3"]', '[\n"n1",\n"n2",\n"n1"]', "13: group accounts has node n1 twice: each replica needs a "
         "node of its own"),
        ('["n3", "n1", "spare"]', '[\n"n3", # n9\n"spare",\n"spark"]', "14: group stock has node spark, which is not "
         "under [nodes]: did you mean spare?"),
        ('["n3", "n1", "spare"]', '["n3", "spare", "backup"]', "11: group stock has node backup, which is not under "
         "[nodes]: add [nodes.backup]"),
        ('["n3", "n1", "spare"]', '["n3", "spare"]', "11: group stock has 2 members, but whitebox needs 2f + 1: use "
         "1, 3, 5 or 7"),
        ('["n3", "n1", "spare"]', '["n3"]', "24: node spare hosts no group: add it to one, or remove it"),
        ("stock =", '"the stock" =', '11: "the stock" cannot be the name of a group: use 1 to 63 letters, digits, - '
         "and _, a letter or digit first"),
        # Nodes.
        ('"127.0.0.1:7101"', '"127.0.0.1"', '14: nodes.n1.address takes host:port, not "127.0.0.1": write address = '
         '"127.0.0.1:7101"'),
        ('"127.0.0.1:7101"', '"[::1]"', '14: nodes.n1.address takes host:port, not "[::1]": write address = '
         '"127.0.0.1:7101"'),
        ('"127.0.0.1:7101"', '"127.0.0.1:0"', '14: nodes.n1.address has no valid port, "0": use 1 to 65535'),
        ('"127.0.0.1:7101"', '"127.0.0.1:65536"', '14: nodes.n1.address has no valid port, "65536": use 1 to 65535'),
        ('"127.0.0.1:7101"', '"h:٣"', '14: nodes.n1.address has no valid port, "٣": use 1 to 65535'),
        ('"127.0.0.1:7101"', '"::1:7101"', '14: nodes.n1.address is "::1:7101": write an IPv6 host in brackets, such '
         'as "[::1]:7101"'),
        ('"127.0.0.1:7101"', '"127.0.0.256:1"', '14: nodes.n1.address has no valid host, "127.0.0.256": write a name, '
         "an IPv4 address, or an IPv6 address in brackets"),
        ('"127.0.0.1:7101"', '"[10.0.0.1]:1"', '14: nodes.n1.address has no valid host, "10.0.0.1": write a name, an '
         "IPv4 address, or an IPv6 address in brackets"),
        ('"127.0.0.1:7101"', '"a..b:1"', '14: nodes.n1.address has no valid host, "a..b": write a name, an IPv4 '
         "address, or an IPv6 address in brackets"),
        ('"127.0.0.1:7101"', '"a b:1"', '14: nodes.n1.address has no valid host, "a b": write a name, an IPv4 '
         "address, or an IPv6 address in brackets"),
        ('"127.0.0.1:7101"', '"0.0.0.0:1"', '14: nodes.n1.address is "0.0.0.0:1", where others cannot reach it: write '
         "the address that they use"),
        ('"127.0.0.1:7102"', '"127.0.0.1:7101"', "17: nodes n1 and n2 have one address, 127.0.0.1:7101: give each its "
         "own"),
        ('unix = "run/n3.sock"', 'data = "/srv/x/../n2"', "22: nodes n2 and n3 have one data, /srv/x/../n2: give each "
         "its own"),
        ('data = "/srv/n2"', 'unix = "/etc/shop/run/./n3.sock"', "22: nodes n2 and n3 have one unix, "
         "/etc/shop/run/n3.sock: give each its own"),
        ('"run/n3.sock"', f'"{"x" * 98}"', f'22: nodes.n3.unix has 108 bytes as "/etc/shop/{"x" * 66}..., at most 107 '
         "are possible: choose a shorter path, such as one in /run"),
    ],
)  # fmt: skip
def test_problem_of_a_file_has_its_line_and_says_what_to_do(old: str, new: str, says: str) -> None:
    assert problems(edited(old, new)) == [says]


def test_name_of_a_node_follows_the_rule_of_names() -> None:
    assert problems(GOOD.replace("n1", "-n1").replace("[nodes.-n1]", "[nodes.'-n1']")) == [
        '13: "-n1" cannot be the name of a node: use 1 to 63 letters, digits, - and _, a letter or digit first'
    ]


@pytest.mark.parametrize("length", [97, 98])
def test_path_of_a_unix_socket_may_have_107_bytes(length: int) -> None:
    text = edited("run/n3.sock", "x" * length)
    assert (length == 97) == (len(str(Path("/etc/shop", "x" * length))) <= 107)
    assert length == 98 or parsed(text).nodes["n3"].unix == Path("/etc/shop", "x" * length)
    assert length == 97 or len(problems(text)) == 1


def test_nodes_on_different_machines_may_have_one_data_directory_and_one_socket() -> None:
    data = 'data = "/srv/b"\nunix = "/run/b.sock"\n'
    text = edited('"127.0.0.1:7102"', '"10.0.0.2:7102"').replace('data = "/srv/n2"\n', data)
    config = parsed(text.replace('Example:7101"\n', f'Example:7101"\n{data}'))
    assert config.nodes["n2"].data == config.nodes["spare"].data


@pytest.mark.parametrize("sizes", ["2x2", "3+2+4"])
def test_every_even_group_is_reported_by_its_name_once(sizes: str) -> None:
    topology = Topology.parse(sizes)
    groups = {f"g{g}": [f"n{i}" for i in range(len(pids))] for g, pids in enumerate(topology.groups)}
    nodes = sorted({node for members in groups.values() for node in members})
    text = "[cluster]\nname = 'x'\nprotocol = 'whitebox'\n[groups]\n"
    text += "".join(f"{name} = {toml_value(members)}\n" for name, members in groups.items())
    text += "".join(f"[nodes.{node}]\naddress = 'h:{port}'\n" for port, node in enumerate(nodes, start=1))
    assert problems(text) == [
        f"{5 + g}: group g{g} has {len(pids)} members, but whitebox needs 2f + 1: use 1, 3, 5 or 7"
        for g, pids in enumerate(topology.groups)
        if len(pids) % 2 == 0
    ]


def test_protocol_that_refuses_the_whole_topology_is_heard() -> None:
    def refuse(topology: Topology) -> None:
        if len(topology.groups) == 2:
            raise TopologyError("group 1 and group 0 are two groups, toy needs one: write one")

    toy = replace(PROTOCOLS["whitebox"], check_topology=refuse)
    with pytest.raises(ConfigError) as caught:
        parse_config(GOOD, "c.toml", lambda _: toy)
    assert caught.value.problems == (
        "c.toml:11: group stock and group accounts are two groups, toy needs one: write one",
    )


def test_all_problems_of_a_file_are_reported_in_the_order_of_its_lines() -> None:
    text = edited("= 7\n", "= '7'\n").replace("ping_ms", "pingms").replace("[cluster]", "[cluster]\nx = 1", 1)
    text = text.replace('"n1", "n2", "n3"', '"n1", "n1", "n7"')
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "c.toml", protocol_named)
    assert [problem.split(":")[1] for problem in caught.value.problems] == ["2", "11", "11", "17", "29", "32"]
    assert str(caught.value) == f"{caught.value.problems[0]} (and 5 more: braidcast config check c.toml shows all)"


def test_an_empty_file_lacks_three_sections() -> None:
    assert problems("") == [
        "1: section [cluster] is missing or empty: write it, with name and protocol",
        '1: section [groups] is missing or empty: write it, with NAME = ["n1", ...]',
        "1: section [nodes] is missing or empty: write it, as [nodes.NAME]",
    ]


# -- where keys stand --------------------------------------------------------------------------------------------------

NASTY = """\
a = 1  # b = 2
"a.b" = 2 # [c]
'c'.d."e f" . "\\"\\u0041#" = 3
text = "a = 1 # \\" ]"
literal = '\\'
long = \"\"\"
x = 1
\\\"\"\" [y] \"\"\"\"\"
also = '''
[z]''''
"" = 11
array = [ 12, # ]
  "]", [13, [  # [
    14]], '''
]''',
  { x = 16, "}" = 16, z.z = [16, { y = 16 }] }, 16
]
inline = { x = "}", y = {}, z = { a.b = 18 } }
when = 1979-05-27 07:32:00 # at = 19
float = 1.5e3
[ t . "u.v" ]
w = 22
[[arr]]
w = 24
[arr.sub]
w = 26
[[arr.list]]
w = 28
[[arr]]
w = 30
[[arr.list]]
[[arr.list]]
w = 33
[t]
w = 35
bare-key_9.9 = 36"""


def paths(value: object, at: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Every path of a document with its value."""
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*at, key), inner
        yield from paths(inner, (*at, key))


def assert_lines_are_right(text: str) -> None:
    """All paths are found, and every number stands on the line that it says."""
    found, values = key_lines(text), dict(paths(tomllib.loads(text)))
    assert found.keys() == values.keys()
    assert {at: line for at, line in found.items() if type(values[at]) is int} == {
        at: value for at, value in values.items() if type(value) is int
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_a_nasty_text(end: str) -> None:
    assert_lines_are_right(NASTY.replace("\n", end))
    found = key_lines(NASTY)
    assert [found[at] for at in (("t",), ("t", "u.v"), ("arr",), ("arr", 1))] == [34, 21, 23, 29]
    assert [found[at] for at in (("c",), ("array", 1), ("array", 3), ("long",), ("when",))] == [3, 13, 14, 6, 19]


STRINGS = (
    '""', "''", '"# \\" ["', "'[a]\\'", '"""\n[x]\n\\""" \n"""""', "'''\n\n]'''''", "true", "-1.5", "07:32:00",
)  # fmt: skip
SPACES = st.sampled_from(["", " ", "  # ]} \" '''\n", "\n", "\n\n# [no] = 1\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid text in which every whole number says its line. Keys are numbered, so that none is there twice."""
    text, made = "", 0

    def key() -> str:
        nonlocal made
        made += 1
        style = draw(st.sampled_from(["k{}", '"k.{}"', "'# k{}'", '"\\" = {}"', "k{} ", "k{} . k", '"" . "]" .k{}']))
        return style.replace('""', f'"{made}"').format(made)

    def value(depth: int, lines: bool) -> None:
        """Adds a value; in an inline table, nothing that has several lines."""
        nonlocal text
        kind = draw(st.sampled_from(["number", "string", "array", "table"] if depth else ["number", "string"]))
        if kind == "number":
            text += str(text.count("\n") + 1)
        elif kind == "string":
            text += draw(st.sampled_from([string for string in STRINGS if lines or "\n" not in string]))
        else:
            text += "[" if kind == "array" else "{"
            for i in range(draw(st.integers(0, 3))):
                text += ", " if i else " "
                if kind == "array" and lines:
                    text += draw(SPACES)
                if kind == "table":
                    text += f"{key()} = "
                value(depth - 1, lines and kind == "array")
            text += (draw(SPACES) if kind == "array" and lines else " ") + ("]" if kind == "array" else "}")

    for _ in range(draw(st.integers(0, 8))):
        text += draw(st.sampled_from(["", "\n", "# x = [\n", "\t"]))
        kind = draw(st.sampled_from(["pair", "pair", "table", "array"]))
        if kind == "pair":
            text += f"{key()} ="
            value(3, lines=True)
            text += draw(st.sampled_from(["\n", " # ]\n"]))
        else:
            text += f"[ {key()}]\n" if kind == "table" else f"[[{key()}]]\n[[arrays]]\n[arrays.{key()}]\n"
    return text


@given(documents())
def test_lines_of_any_text(text: str) -> None:
    assert_lines_are_right(text)


CHARACTERS = "ab[]{}=.,#1 \\\n\"'"


@given(st.integers(0, len(NASTY) - 1), st.integers(0, 2), st.text(st.sampled_from(CHARACTERS), max_size=3))
def test_keys_of_whatever_is_accepted_are_found(at: int, fewer: int, more: str) -> None:
    text = NASTY[:at] + more + NASTY[at + fewer :]
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert key_lines(text).keys() == dict(paths(document)).keys()


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_keys_and_values_that_are_written_are_read_back(key: str, value: str) -> None:
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}") == {key: value}
