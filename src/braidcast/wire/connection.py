"""A connection: frames both ways over a stream, with limits, until the first thing goes wrong.

1. What is wrong with what arrives (a bad frame, too long a silence) ends the connection, and only that.
2. Its owner hears of each body and, once, of the end with the reason.
3. What the other side does not read is buffered up to a limit; beyond it the connection ends, rather than memory.
4. Once it has ended it keeps nothing alive, not even as part of a cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from braidcast.wire.frames import FrameError, FrameReader, frame

UNREAD_HIGH, UNREAD_LOW = 1 << 18, 1 << 16
"""An owner who paces what it writes hears of it when what waits has risen above the one and fallen to the other."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may use."""

    frame_bytes_max: int
    buffer_bytes_max: int
    """Written and not taken by the other side yet."""


class Connection(asyncio.Protocol):
    """One end of one connection."""

    def __init__(
        self,
        limits: ConnectionLimits,
        on_body: Callable[[Connection, bytes], None],
        on_end: Callable[[Connection, str], None],
        on_made: Callable[[Connection], None] | None = None,
    ) -> None:
        self.limits = limits
        self.on_body, self.on_end, self.on_made = on_body, on_end, on_made
        self.reader = FrameReader(limits.frame_bytes_max)
        self.transport: asyncio.Transport | None = None
        self.sent = 0
        """Frames."""
        self.sent_at_pulse = 0
        self.written_bytes = 0
        """In frames that were written."""
        self.taken_at_pulse = 0
        self.stalled_pulses = 0
        """For how many pulses the other side has taken nothing of what waits for it."""
        self.on_drained: Callable[[], None] | None = None
        """Called when there is room again for what its owner keeps."""
        self.heard = True
        """Whether anything has arrived since the last pulse."""
        self.silent_pulses = 0
        self.reading = True
        self.why: str | None = None
        """Why it ended; None while it lives."""
        self.fault = ""
        """What the other side did wrong, if that is why: a few words without numbers, to be counted by."""

    # -- asyncio's side ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are of no such class
        if self.why is not None:
            return self.transport.abort()
        self.transport.set_write_buffer_limits(high=UNREAD_HIGH, low=UNREAD_LOW)
        if self.on_made is not None:
            self.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        if self.why is not None:
            return
        self.heard = True
        why, fault = "", ""
        try:
            bodies = self.reader.feed(data)
        except FrameError as error:  # not kept: its traceback holds this call, and with it the data
            bodies, why, fault = error.bodies, str(error), error.kind
        for body in bodies:
            self.on_body(self, body)
            if self.why is not None:
                return
        if fault:
            self.end(why, fault=fault)

    def resume_writing(self) -> None:
        """The other side has taken most of what was written."""
        if self.why is None and self.on_drained is not None:
            self.on_drained()

    def eof_received(self) -> bool:
        """The other side has nothing more to say."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream is gone."""
        self._ended(str(exc) if exc else "closed by the other side")

    # -- the owner's side --------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.why is None and self.transport is not None

    @property
    def unread_bytes(self) -> int:
        """Written, and not taken by the other side yet."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def send(self, body: bytes) -> None:
        """One frame; what cannot be sent any more is lost with the connection."""
        if self.why is not None or self.transport is None:
            return
        if self.unread_bytes + len(body) > self.limits.buffer_bytes_max:
            why = f"the other side does not read: {self.unread_bytes:,} bytes wait for it"
            return self.end(why, fault="does not read")
        whole = frame(self.sent, body)
        self.written_bytes += len(whole)
        self.transport.write(whole)
        self.sent += 1

    def set_reading(self, reading: bool) -> None:
        """Take what arrives, or leave it in the network from now on; what was read already still comes."""
        if self.transport is None or self.why is not None or reading == self.reading:
            return
        self.reading = reading
        if reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def pulse(self, silent_pulses_max: int) -> None:
        """To be called at a steady pace: show that this side is alive, and see whether the other one is."""
        if not self.alive:
            return
        # Who is not listened to cannot be blamed for silence.
        self.silent_pulses = 0 if self.heard or not self.reading else self.silent_pulses + 1
        self.heard = False
        unread, taken = self.unread_bytes, self.written_bytes - self.unread_bytes
        self.stalled_pulses = self.stalled_pulses + 1 if unread and taken == self.taken_at_pulse else 0
        self.taken_at_pulse = taken
        if self.silent_pulses > silent_pulses_max:
            return self.end("the other side is silent", fault="silent")
        if self.sent == self.sent_at_pulse:
            self.send(b"")
        self.sent_at_pulse = self.sent

    def end(self, why: str, *, fault: str = "", flush: bool = False) -> None:
        """End it; with `flush`, after what was written has left."""
        if self.why is None:
            self.fault = fault
        if self.transport is not None and self.why is None:
            if flush:
                self.transport.close()
            else:
                self.transport.abort()
        self._ended(why)

    def _ended(self, why: str) -> None:
        if self.why is None:
            self.why = why
            self.on_end(self, why)
            # Its owner has it, and it has its owner's callbacks: without them, and without its half of a frame, it
            # dies by its count. A node collects cycles so rarely that whoever comes and goes could fill its memory.
            self.on_body, self.on_end, self.on_drained = _ignore, _ignore, None
            self.reader.buffer = bytearray()


def _ignore(connection: Connection, what: object) -> None:
    pass
