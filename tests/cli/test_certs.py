"""`braidcast certs` as a person types it; what it makes is tried elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from braidcast.cli.main import run
from braidcast.cluster.config_text import render_local

Captured = pytest.CaptureFixture[str]


def test_files_that_were_written_are_listed_and_not_written_again(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "certs"
    assert run(["certs", str(folder), "--node", "n1", "--client", "alice"]) == 0
    written = capsys.readouterr().out.split()
    assert sorted(written) == sorted(map(str, folder.iterdir()))
    assert len(written) == 6
    assert run(["certs", str(folder), "--client", "alice"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is not replaced" in error
    assert run(["certs", str(folder), "--client", "bob", "--days", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "written": [str(folder / "client-bob.key"), str(folder / "client-bob.pem")]
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "say whose certificates: --node NAME or --client NAME"),
        (["--client", "a b"], "'a b' cannot be the name of a client"),
        (["--client", "a", "--days", "0"], "0 is not in the range"),
    ],
)
def test_misuse_is_one_line(tmp_path: Path, capsys: Captured, arguments: list[str], says: str) -> None:
    assert run(["certs", str(tmp_path / "certs"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert not (tmp_path / "certs").exists()


def test_identity_without_tls_or_without_files_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    plain, secure = tmp_path / "plain.toml", tmp_path / "secure.toml"
    plain.write_text(render_local("whitebox", [7101], groups=1, replicas=1))
    secure.write_text(render_local("whitebox", [7101], groups=1, replicas=1, tls=True))
    for command, says in (
        (["send", "--cluster", str(plain), "--identity", "alice", "--to", "g0", "x"], "has no [tls]"),
        (["status", "--cluster", str(plain), "--identity", "alice"], "has no [tls]"),
        (["send", "--cluster", str(secure), "--to", "g0", "x"], "client-admin.pem cannot be read"),
        (["tail", "--cluster", str(secure), "--identity", "alice", "g0"], "client-alice.pem cannot be read"),
    ):
        assert run(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert says in error
    assert run(["status", "--cluster", str(secure)]) == 1
    assert "client-admin.pem cannot be read" in capsys.readouterr().out
