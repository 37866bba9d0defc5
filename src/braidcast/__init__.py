"""Atomic multicast for Python: one consistent order across partitions, without a global sequencer.

What is listed here is for applications; everything else may change. `docs/client.md` and `docs/replica.md` show how to
use it. A name is imported when it is first asked for, so that a protocol or a simulator does not load what a network
needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braidcast.client.client import Client as Client
    from braidcast.client.errors import ClientClosed as ClientClosed
    from braidcast.client.errors import ClusterUnreachable as ClusterUnreachable
    from braidcast.client.errors import MessageRefused as MessageRefused
    from braidcast.client.errors import NoLongerKept as NoLongerKept
    from braidcast.client.errors import NotDelivered as NotDelivered
    from braidcast.client.errors import NotPermitted as NotPermitted
    from braidcast.client.errors import PayloadTooLarge as PayloadTooLarge
    from braidcast.client.errors import StateUnusable as StateUnusable
    from braidcast.client.errors import TimedOut as TimedOut
    from braidcast.client.errors import UnknownGroup as UnknownGroup
    from braidcast.client.sender import Receipt as Receipt
    from braidcast.client.subscriber import Checkpoint as Checkpoint
    from braidcast.client.subscriber import Delivery as Delivery
    from braidcast.client.subscriber import Subscriber as Subscriber
    from braidcast.client.sync import SyncClient as SyncClient
    from braidcast.client.sync import SyncSubscriber as SyncSubscriber
    from braidcast.core.client import MessageId as MessageId
    from braidcast.core.errors import BraidcastError as BraidcastError
    from braidcast.embedded.errors import NodeFailed as NodeFailed
    from braidcast.embedded.errors import NotHosted as NotHosted
    from braidcast.embedded.errors import ResultLost as ResultLost
    from braidcast.embedded.machine import StateMachine as StateMachine
    from braidcast.embedded.replica import Applied as Applied
    from braidcast.embedded.replica import Replica as Replica
    from braidcast.embedded.replicated import Replicated as Replicated
    from braidcast.embedded.replicated import replicated as replicated
    from braidcast.settings.tls import Credentials as Credentials

__version__ = "0.1.0"

_HOMES = {
    "client.client": ("Client",),
    "client.errors": (
        "ClientClosed", "ClusterUnreachable", "MessageRefused", "NoLongerKept", "NotDelivered", "NotPermitted",
        "PayloadTooLarge", "StateUnusable", "TimedOut", "UnknownGroup",
    ),
    "client.sender": ("Receipt",),
    "client.subscriber": ("Checkpoint", "Delivery", "Subscriber"),
    "client.sync": ("SyncClient", "SyncSubscriber"),
    "core.client": ("MessageId",),
    "core.errors": ("BraidcastError",),
    "embedded.errors": ("NodeFailed", "NotHosted", "ResultLost"),
    "embedded.machine": ("StateMachine",),
    "embedded.replica": ("Applied", "Replica"),
    "embedded.replicated": ("Replicated", "replicated"),
    "settings.tls": ("Credentials",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Applied", "BraidcastError", "Checkpoint", "Client", "ClientClosed", "ClusterUnreachable", "Credentials",
    "Delivery", "MessageId", "MessageRefused", "NoLongerKept", "NodeFailed", "NotDelivered", "NotHosted",
    "NotPermitted", "PayloadTooLarge", "Receipt", "Replica", "Replicated", "ResultLost", "StateMachine",
    "StateUnusable", "Subscriber", "SyncClient", "SyncSubscriber", "TimedOut", "UnknownGroup", "__version__",
    "replicated",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"braidcast.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
