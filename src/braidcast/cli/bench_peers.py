"""`braidcast bench peers`: the same load on what people use today."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import click

from braidcast.cli.arguments import json_argument, print_json
from braidcast.cli.progress import Progress
from braidcast.cli.registry import WHITEBOX
from braidcast.cli.stopping import stops_when_told
from braidcast.trials.peers.braidcast import Braidcast
from braidcast.trials.peers.compare import Comparison, compare, render_comparison
from braidcast.trials.peers.etcd import TXN_OPS_MAX, Etcd
from braidcast.trials.peers.nats import Nats
from braidcast.trials.peers.peer import Peer
from braidcast.trials.peers.pysyncobj import PySyncObj

OVERHEAD_S = 3.0


def all_peers() -> dict[str, list[Peer]]:
    """Every system by the name that it is asked for with."""
    return {
        "braidcast": [Braidcast(WHITEBOX, "disk"), Braidcast(WHITEBOX, "disk", 2), Braidcast(WHITEBOX, "memory")],
        "etcd": [Etcd()],
        "nats": [Nats()],
        "pysyncobj": [PySyncObj(), PySyncObj(gathering=False)],
    }


@click.command()
@click.option("--only", type=click.Choice(list(all_peers())), multiple=True, help="Only such systems; may be repeated.")
@click.option("--outstanding", type=click.IntRange(min=1), multiple=True, default=(1, 64, 1024), show_default=True,
              help="Units under way; may be repeated.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1, TXN_OPS_MAX), multiple=True, default=(1, 16), show_default=True,
              help="Messages in a unit; may be repeated.")  # fmt: skip
@click.option("--payload", type=click.IntRange(min=0), default=20, show_default=True, help="Bytes of a message.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="How often each is measured.")
@click.option("--seconds", type=click.FloatRange(min=0.5), default=3.0, show_default=True, help="Of each measurement.")
@click.option("--render", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Measure nothing: print what --json printed into a file as Markdown.")  # fmt: skip
@json_argument
def peers(
    only: tuple[str, ...], outstanding: tuple[int, ...], batch: tuple[int, ...], payload: int, rounds: int,
    seconds: float, render: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """etcd, NATS JetStream and PySyncObj beside braidcast: one group of three each, in turn, as ratios.

    Their servers are found on the PATH; what is not installed is said and left out. All run in throw-away directories
    with their defaults. braidcast is measured with two groups as well: it orders across them, and the others have
    nothing like it. What "acknowledged" means and what survives what is in the first table.

    \b
    Examples:
      braidcast bench peers --only braidcast --only etcd --outstanding 64
      braidcast bench peers --json > peers.json; braidcast bench peers --render peers.json
    """
    if render is not None:
        try:
            text = render_comparison(json.loads(render.read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise click.UsageError(f"{render} is not what `bench peers --json` prints: measure again") from None
        click.echo(text, nl=False)
        return
    chosen = [peer for name, found in all_peers().items() if not only or name in only for peer in found]
    comparison = Comparison(chosen, list(product(outstanding, batch)), rounds, seconds, payload)
    for peer in chosen:
        if why := peer.missing():
            click.echo(f"{peer.name}: {why}", err=True)
    if not comparison.steps:
        raise click.UsageError("none of these systems is installed: there is nothing to measure")
    about_s = comparison.steps * (seconds + comparison.warm_up_s + OVERHEAD_S)
    click.echo(f"{comparison.steps} measurements, about {about_s / 60:.1f} min", err=True)
    with stops_when_told(), Progress("measurements", comparison.steps) as progress:
        found = compare(comparison, progress.update)
    if as_json:
        print_json(found)
    else:
        click.echo(render_comparison(found), nl=False)
