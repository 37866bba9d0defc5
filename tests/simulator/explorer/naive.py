"""The search that the explorer must agree with: no captured states, no memory of steps, no fingerprints.

A process is nothing but the inputs it had so far, and every step replays them all on a new process. Slow and simple.
"""

from __future__ import annotations

from typing import Any

from braidcast.core.process import Batch, Process
from braidcast.core.topology import Pid
from braidcast.simulator.explorer import Setup
from braidcast.simulator.explorer.capture import Freezer, layout_of

Inputs = tuple[tuple[Pid, Any], ...]
Channels = dict[tuple[Pid, Pid], tuple[Any, ...]]


def explore_naively(setup: Setup) -> tuple[int, int, int]:
    """States, outcomes and transitions of a setup in which the environment does nothing."""
    freezer = Freezer()
    pids = setup.topology.pids
    channels: Channels = {}
    for sender, to, message in setup.submissions:
        channels[sender, to] = (*channels.get((sender, to), ()), message)
    inputs: dict[Pid, Inputs] = dict.fromkeys(pids, ())
    for pid in pids:
        channels = with_sent(channels, pid, replay(setup, pid, ())[1], pids)
    seen = {key_of(setup, freezer, inputs, channels)}
    outcomes: set[str] = set()
    stack, transitions = [(inputs, channels)], 0
    while stack:
        inputs, channels = stack.pop()
        if not channels:
            outcomes.add(repr([replay(setup, pid, inputs[pid])[2] for pid in pids]))
        for (sender, to), queue in channels.items():
            left = {c: q for c, q in channels.items() if c != (sender, to)}
            if queue[1:]:
                left[sender, to] = queue[1:]
            had = {**inputs, to: (*inputs[to], (sender, queue[0]))}
            left = with_sent(left, to, replay(setup, to, had[to])[1], pids)
            transitions += 1
            key = key_of(setup, freezer, had, left)
            if key not in seen:
                seen.add(key)
                stack.append((had, left))
    return len(seen), len(outcomes), transitions


def replay(setup: Setup, pid: Pid, inputs: Inputs) -> tuple[Process, Batch, list[Any]]:
    """A process after its inputs, what the last of them put out, and all that was delivered."""
    process = setup.make(pid)
    process.out.now = setup.now
    process.start(0)
    last = process.out.take()
    delivered = [*last.delivered]
    for sender, message in inputs:
        process.step(sender, message)
        last = process.out.take()
        delivered += last.delivered
    return process, last, delivered


def with_sent(channels: Channels, pid: Pid, batch: Batch, pids: tuple[Pid, ...]) -> Channels:
    """The channels with what a process sent."""
    channels = dict(channels)
    for to, message in batch.sent:
        for q in to:
            if q != pid and q in pids:
                channels[pid, q] = (*channels.get((pid, q), ()), message)
    return channels


def key_of(setup: Setup, freezer: Freezer, inputs: dict[Pid, Inputs], channels: Channels) -> Any:
    """Equal for equal states."""
    replayed = [replay(setup, pid, had) for pid, had in inputs.items()]
    states = [freezer.key(layout_of(process)) for process, _, _ in replayed]
    return tuple(states), repr([delivered for _, _, delivered in replayed]), repr(sorted(channels.items()))
