"""Real nodes on real sockets take what a few mutated scripts say to them: nobody dies, grows, or waits for it.

`python -m tests.fuzz --live --seconds 300` does so for longer, and with `--seed` says something else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fuzz.live import attack

RUNS = 15
SEED = 1


def test_live_nodes_end_and_count_every_broken_stream_while_a_client_is_served(tmp_path: Path) -> None:
    said: list[str] = []
    asyncio.run(attack(tmp_path, SEED, RUNS, 0, said.append))
    roles = [line.split()[0] for line in said]
    assert roles == ["stranger", "client", "peer"] * 2 + ["liar"]
