"""The command `braidcast`: its subcommands, and how errors look.

Exit status: 0, all is well; 1, a violation was found or an expectation was not met; 2, misuse. An error is one line
that says what to do; no traceback reaches a user.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from braidcast import __version__
from braidcast.cli.backups import backup, restore_
from braidcast.cli.bench import bench
from braidcast.cli.certs import certs
from braidcast.cli.chaos import chaos
from braidcast.cli.check import check
from braidcast.cli.clusters import down, seal, up
from braidcast.cli.config import config
from braidcast.cli.demo import demo
from braidcast.cli.doctor import doctor
from braidcast.cli.dump import dump
from braidcast.cli.explain import explain
from braidcast.cli.explore import explore
from braidcast.cli.fuzz import fuzz
from braidcast.cli.leading import lead
from braidcast.cli.messages import send, tail
from braidcast.cli.node import node
from braidcast.cli.sim import sim
from braidcast.cli.verify import verify
from braidcast.cli.watching import status, top
from braidcast.core.errors import BraidcastError

MISUSE = 2
INTERRUPTED = 130


class ReaderGone(Exception):
    """Whoever read the output has gone; click itself would make a failure of it."""


class Commands(click.Group):
    """The subcommands."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="braidcast")
def cli() -> None:
    """Atomic multicast: one consistent order across groups, without a global sequencer.

    \b
    See it work:              braidcast demo
    Run one schedule:         braidcast sim --protocol whitebox --scenario convoy
    Look for mistakes:        braidcast fuzz --protocol whitebox --runs 1000
    Look at every schedule:   braidcast explore --protocol whitebox --groups 1 --replicas 3 --messages 2
    Judge what was recorded:  braidcast check /tmp/run
    Judge thousands at once:  braidcast verify runs
    Measure it:               braidcast bench core
    Run it for real:          braidcast up
    Break it for real:        braidcast chaos
    """


for command in (
    demo, up, down, seal, status, top, lead, send, tail, dump, backup, restore_, node, config,
    sim, fuzz, explore, check, verify, explain, chaos, bench, certs, doctor,
):  # fmt: skip
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    try:
        left_with = cli.main(args=None if arguments is None else list(arguments), standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return MISUSE
    except click.ClickException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "braidcast")
        hint = f" (see {command} --help)" if isinstance(error, click.UsageError) else ""
        return _fail(error.format_message() + hint)
    except BraidcastError as error:
        return _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted")
        return INTERRUPTED
    except ReaderGone:
        sys.stdout = None  # whoever read it has gone: nothing is left to flush
        return 0
    except OSError as error:
        sys.stdout = None  # what is left in it cannot be written either
        where = f" {error.filename}" if error.filename is not None else ""
        return _fail(f"cannot read or write{where}: {error.strerror or error}: make room there, or name another place")
    return left_with if isinstance(left_with, int) else 0


def _fail(message: str) -> int:
    click.echo(f"braidcast: {' '.join(message.split())}", err=True)
    return MISUSE
