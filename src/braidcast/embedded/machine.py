"""What an application gives a node to host: one object for each group.

1. `apply` gets every message of the group exactly once, in its order, one after the other. What it returns is the
   result for whoever submitted the message through this node.
2. **Deterministic**: the same deliveries give the same state and the same results at every replica, in whatever
   process and however often the node was restarted in between. No clock (`delivery.timestamp` rises, and is the same
   everywhere), no chance, no iteration over a set, nothing read from outside.
3. **What `apply` raises is a result, too**: whoever submitted the message gets it, the node logs it, and goes on with
   the state as `apply` left it. That is right because every replica raises it at the same place. What depends on
   this machine instead of the message (`OSError`, `MemoryError`, `RecursionError`) must not become a result that others
   do not have: it ends the node, which applies the message again after its restart. An application with a store of its
   own raises what goes wrong there as an `OSError`.
4. A message without payload is a barrier: it has its place in the order, and no state machine sees it.
5. `snapshot` and `restore` are called between deliveries. The node keeps the state on disk together with the place in
   the order, and applies again what came after it: after a restart the state is that of every message once.
"""

from __future__ import annotations

from typing import Any, Protocol

from braidcast.client.subscriber import Checkpoint, Delivery

NOT_RESULTS = (OSError, MemoryError, RecursionError)
"""What a state machine raises because of the machine that it runs on."""


class StateMachine(Protocol):
    """What a node can host.

    One that keeps its effects in a durable store of its own also has a property `checkpoint`: the `Checkpoint` of the
    last delivery whose effect is durable there, in the transaction of the effect itself. It is then not kept on disk by
    the node, which applies what comes after that checkpoint. Its `snapshot` contains the checkpoint, and its `restore`
    is durable when it returns.
    """

    def apply(self, delivery: Delivery) -> Any:
        """The effect of the next message of the group, and its result."""

    def snapshot(self) -> bytes:
        """All of the state."""

    def restore(self, state: bytes) -> None:
        """Become the state machine whose state this is, whatever the state was."""


def own_checkpoint(machine: StateMachine) -> Checkpoint | None:
    """How far the effects are durable in a store of its own, if it has one."""
    found = getattr(machine, "checkpoint", None)
    return found if isinstance(found, Checkpoint) else None
