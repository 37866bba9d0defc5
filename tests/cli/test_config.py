"""`braidcast config`: what it prints of sound, wrong and default configurations, and the page that explains them."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, cast

import pytest

from braidcast.cli.config import config
from braidcast.cli.config_reference import render_reference
from braidcast.cli.registry import PROTOCOLS, protocol_named
from braidcast.cluster.config import RELATIONS, SECTIONS, ConfigError, Layout, load_config, parse_config
from braidcast.cluster.config_text import render_local
from braidcast.settings.toml_lines import Whole, settings_of

Captured = pytest.CaptureFixture[str]
REFERENCE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
LOCAL = render_local("whitebox", (7101, 7102, 7103), groups=("accounts", "stock"))


def run(*arguments: object) -> int:
    status: int = config.main([str(argument) for argument in arguments], "braidcast config", standalone_mode=False)
    return status


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(LOCAL, encoding="utf-8")
    return path


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_of_a_sound_file_shows_the_cluster(file: Path, capsys: Captured) -> None:
    assert run("check", file) == 0
    fingerprint = load_config(file, protocol_named).fingerprint
    data = [f"{file.parent}/data/n{i}" for i in (1, 2, 3)]
    width = len(data[0])
    assert capsys.readouterr().out == (
        f"cluster local: protocol whitebox, durability disk, fingerprint {fingerprint}\n"
        "group     number  nodes\n"
        "accounts       0  n1 n2 n3\n"
        "stock          1  n1 n2 n3\n"
        f"node  address         processes  {'data':<{width}}".rstrip() + "\n"
        f"n1    127.0.0.1:7101  0 3        {data[0]}\n"
        f"n2    127.0.0.1:7102  1 4        {data[1]}\n"
        f"n3    127.0.0.1:7103  2 5        {data[2]}\n"
    )


def test_check_says_where_a_history_is_written(file: Path, capsys: Captured) -> None:
    file.write_text(LOCAL.replace("[groups]", 'history = "h"\n[groups]'), encoding="utf-8")
    assert run("check", file) == 0
    assert f"\nhistory (order) in {file.parent}/h\n" in capsys.readouterr().out


def test_check_of_a_sound_file_as_json(file: Path, capsys: Captured) -> None:
    assert run("check", file, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["problems"]) == (True, [])
    assert (found["name"], found["protocol"], found["durability"]) == ("local", "whitebox", "disk")
    assert found["fingerprint"] == load_config(file, protocol_named).fingerprint
    assert found["options"]["follower_delivery"] == "leader"
    assert found["groups"][1] == {"name": "stock", "number": 1, "nodes": ["n1", "n2", "n3"], "pids": [3, 4, 5]}
    assert found["nodes"][0] == {
        "name": "n1", "address": "127.0.0.1:7101", "data": f"{file.parent}/data/n1", "unix": None, "admin": None,
        "pids": [0, 3],
    }  # fmt: skip


def test_check_prints_every_problem_on_a_line_and_leaves_with_2(file: Path, capsys: Captured) -> None:
    file.write_text(LOCAL.replace(":7101", ":x").replace("name =", "nam ="), encoding="utf-8")
    says = [
        f'{file}:4: [cluster] has no name: add name = "shop"',
        f"{file}:5: there is no key nam in [cluster]: did you mean name?",
        f'{file}:13: nodes.n1.address has no valid port, "x": use 1 to 65535',
    ]
    assert run("check", file) == 2
    assert capsys.readouterr().out.splitlines() == says
    assert run("check", file, "--json") == 2
    assert json.loads(capsys.readouterr().out) == {"ok": False, "problems": says}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = 1\nb = x\n", "2: this cannot be read as TOML, invalid value at column 5: put text in quotes, and write "
         "true and false in small letters"),
        ("[a]\n\n[a]\n", "3: this cannot be read as TOML, cannot declare ('a',) twice at column 3: remove or rename "
         "one of the two"),
        ("name: x\n", "1: this cannot be read as TOML, expected '=' after a key in a key/value pair at column 5: write "
         "KEY = VALUE"),
        ("a = [1,\n2\n\n", "2: this cannot be read as TOML, unclosed array: close the array"),
        ('a = "x\n', "1: this cannot be read as TOML, illegal character '\\n' at column 7: close the string on its "
         "line"),
        ("a = 1 b = 2", "1: this cannot be read as TOML, expected newline or end of document after a statement at "
         "column 7: see https://toml.io for its notation"),
        (f"a = {'9' * 5000}", "1: this cannot be read as TOML, a number has too many digits: correct it"),
        (f"a = {'[' * 5000}{']' * 5000}", "1: values are nested too deep: none of them needs more than a list"),
    ],
)  # fmt: skip
def test_text_that_is_not_toml_is_one_problem_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "c.toml", protocol_named)
    assert caught.value.problems == (f"c.toml:{says}",)


def test_file_that_cannot_be_read_is_one_problem(tmp_path: Path, capsys: Captured) -> None:
    latin, empty = tmp_path / "latin.toml", tmp_path / "empty"
    latin.write_bytes("[cluster]\nname = 'é'".encode("latin-1"))
    empty.touch()
    for path, says in (
        (tmp_path / "absent", ": there is no such file: check its path"),
        (tmp_path, ": this is a directory: name the TOML file in it"),
        (empty / "x", ": the file cannot be read (Not a directory): check its path and permissions"),
        (latin, ":2: this is not UTF-8: save the file in that encoding"),
    ):
        assert run("check", path) == 2
        assert capsys.readouterr().out == f"{path}{says}\n"


# -- local clusters ----------------------------------------------------------------------------------------------------


def test_text_of_a_local_cluster() -> None:
    assert render_local(
        "whitebox", (7101,), groups=1, replicas=1, unix=True,
        settings={"cluster": {"durability": "memory"}, "cluster.options": {"prevote": False}, "timing": {"ping_ms": 9}},
    ) == """\
# Nodes on this machine: 1; each hosts a replica of every group.
# docs/configuration.md explains every key; `braidcast config check FILE` checks what you change.

[cluster]
name = "local"
protocol = "whitebox"
durability = "memory"

[cluster.options]
prevote = false

[groups]  # the order of groups and nodes numbers the processes: keep it
g0 = ["n1"]

[nodes.n1]
address = "127.0.0.1:7101"
data = "data/n1"
unix = "run/n1.sock"

[timing]
ping_ms = 9
"""  # fmt: skip


@pytest.mark.parametrize("layout", ["colocated", "spread"])
@pytest.mark.parametrize("replicas", [1, 3, 5])
@pytest.mark.parametrize("groups", [1, 3, ("accounts", "stock")])
def test_local_cluster_of_any_shape_is_sound(groups: int | tuple[str, ...], replicas: int, layout: Layout) -> None:
    names = [f"g{g}" for g in range(groups)] if isinstance(groups, int) else list(groups)
    ports = range(7101, 7101 + replicas * (len(names) if layout == "spread" else 1))
    cluster = parse_config(
        render_local("whitebox", ports, name="x", groups=groups, replicas=replicas, layout=layout), "c", protocol_named
    )
    assert [group.name for group in cluster.groups] == names
    assert {len(group.pids) for group in cluster.groups} == {replicas}
    assert [node.port for node in cluster.nodes.values()] == list(ports)
    assert {len(cluster.pids_of(node)) for node in cluster.nodes} == {1 if layout == "spread" else len(names)}
    assert cluster.groups[0].nodes[0] == (f"{names[0]}-1" if layout == "spread" else "n1")


def test_local_cluster_needs_a_port_for_each_node() -> None:
    with pytest.raises(ValueError, match="shorter"):
        render_local("whitebox", (7101, 7102))


# -- defaults and the reference ----------------------------------------------------------------------------------------


def test_defaults_are_toml_and_those_of_the_schema(capsys: Captured) -> None:
    run("show-defaults", "--protocol", "whitebox")
    text = capsys.readouterr().out
    found = tomllib.loads(text)
    assert set(found.pop("cluster").pop("options")) == {
        field.name for field in dataclasses.fields(PROTOCOLS["whitebox"].options)
    }
    assert found == {
        section: {name: known.default for name, known in settings_of(SECTIONS[section]).items()}
        for section in ("limits", "timing")
    }
    for kind in SECTIONS.values():
        for name, known in settings_of(kind).items():
            assert f"# {known.setting.doc}" in text
            assert f"{name} = {known.example}\n" in text


def test_defaults_without_a_protocol_have_no_options(capsys: Captured) -> None:
    run("show-defaults")
    assert set(tomllib.loads(capsys.readouterr().out)["cluster"]) == {
        "durability", "history_detail", "log", "when_unavailable", "without_tls",
    }  # fmt: skip


def test_reference_is_what_the_command_prints(capsys: Captured) -> None:
    run("reference")
    assert capsys.readouterr().out == REFERENCE, "braidcast config reference > docs/configuration.md"


def test_reference_has_every_key_and_every_option_with_what_is_said_of_it() -> None:
    for kind in SECTIONS.values():
        for name, known in settings_of(kind).items():
            assert re.search(rf"^\| `{name}` \|.*\| {re.escape(known.setting.doc)} \|$", REFERENCE, re.MULTILINE)
    for protocol in PROTOCOLS.values():
        for field in dataclasses.fields(protocol.options):
            assert re.search(rf"^\| `{field.name}` \|.*\| \w.* \|$", REFERENCE, re.MULTILINE), field.name
    for relation in [relation for found in RELATIONS.values() for relation in found]:
        assert f"- `{relation.larger}` is at least `{relation}`\n" in REFERENCE


@dataclasses.dataclass(frozen=True, slots=True)
class Kitchen:
    """What is cooked."""

    ovens: Annotated[int, Whole("How many.", 1, 3)] = 2


def test_section_that_is_new_in_the_schema_is_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, type], SECTIONS), "kitchen", Kitchen)
    assert render_reference([]).endswith(
        "## [kitchen]\n\nWhat is cooked.\n\n| key | takes | default | |\n|---|---|---|---|\n"
        "| `ovens` | a whole number from 1 to 3 | `2` | How many. |\n"
    )


def test_examples_of_the_reference_are_sound() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        assert parse_config(example, "cluster.toml", protocol_named).fingerprint


def test_commands_of_the_reference_exist() -> None:
    assert set(re.findall(r"braidcast config ([\w-]+)", REFERENCE)) == set(config.commands)


def test_help_of_every_command_has_an_example(capsys: Captured) -> None:
    for arguments in (["--help"], ["check", "--help"], ["show-defaults", "--help"], ["reference", "--help"]):
        run(*arguments)
        text = capsys.readouterr().out
        assert "braidcast config check" in text or f"braidcast config {arguments[0]}" in text
