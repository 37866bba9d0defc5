"""Progress of long work: one line on a terminal, after two seconds; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import click

SHOW_AFTER_S = 2.0
SHOW_EVERY_S = 0.2


class Progress:
    """A line that says how far the work is, and how long it may still take where the end is known."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what = what
        self.total = total
        self.began = time.monotonic()
        self.shown_at = self.began + SHOW_AFTER_S - SHOW_EVERY_S
        self.visible = False
        self.enabled = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.visible:
            click.echo("\r\033[K", nl=False, err=True)

    def update(self, done: int, extra: str = "") -> None:
        """`done` of the total is done."""
        now = time.monotonic()
        if not self.enabled or now - self.shown_at < SHOW_EVERY_S:
            return
        self.shown_at, self.visible = now, True
        elapsed = now - self.began
        line = f"{self.what}: {done:,}"
        if self.total:
            left = elapsed / max(done, 1) * (self.total - done)
            line += f" of {self.total:,} ({done * 100 // self.total}%), about {left:.0f} s left"
        else:
            line += f", {elapsed:.0f} s"
        click.echo(f"\r\033[K{line}{extra}", nl=False, err=True)
