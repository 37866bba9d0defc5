"""The admin port of a node: how it is, over HTTP, for whoever watches it; it answers even if its loop does not.

    GET  /metrics                    what Prometheus scrapes
    GET  /healthz                    200 if the node takes part in the work of its groups; 503, and why not, a line each
    GET  /status                     everything, as JSON
    POST /lead?group=g0&node=n2      let node n2 lead group g0, which this one leads

1. It has threads of its own and asks the loop, which has `ANSWER_S`; then the answer is 503, and says so. Who asks
   meanwhile waits for the same answer, so a loop that hangs finds one question when it goes on.
2. There are at most `CONNECTIONS_MAX` connections: the oldest goes when another one comes. One that says nothing for
   `SILENCE_S` goes, too. A connection brings one request.
3. It changes nothing but by POST, with a header that no web page can make a browser send.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from braidcast.cluster.handing_over import HAND_OVER_S, let_lead
from braidcast.cluster.status import status_of
from braidcast.core.errors import BraidcastError
from braidcast.settings.toml_lines import host_and_port, ip_of

if TYPE_CHECKING:
    from braidcast.cluster.node import Node

log = logging.getLogger(__name__)

ANSWER_S = 2.0
SILENCE_S = 2.0
CONNECTIONS_MAX = 8
HEADER = "X-Braidcast"
"""Must be there on a POST, with any value."""
TEXT, JSON, METRICS = "text/plain; charset=utf-8", "application/json", "text/plain; version=0.0.4; charset=utf-8"
T = TypeVar("T")


class LoopSilent(BraidcastError):
    """The node's loop has not answered in time."""


class Admin:
    """The port, and the questions that are put to the loop."""

    def __init__(self, node: Node, address: str) -> None:
        self.node, self.address = node, address
        self.server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._asked: Future[dict[str, Any]] | None = None
        self.render: Callable[[dict[str, Any]], bytes] = lambda _: b""
        self.asked = 0
        """How many questions were put to the loop."""

    def open(self) -> None:
        """Begin to answer; in the loop of the node."""
        # Only a node that has the port needs it; and now, for it would keep everything waiting at the first scrape.
        from braidcast.cluster.metrics import render

        self.render = render
        self._loop = asyncio.get_running_loop()
        try:
            self.server = Server(self)
        except OSError as error:
            raise BraidcastError(
                f"node {self.node.name} cannot listen at {self.address} (admin): {error.strerror or error}: is the "
                f"port in use?"
            ) from None
        threading.Thread(target=self.server.run, name="admin", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        if self.server is not None:
            self.server.stop()

    def status(self) -> dict[str, Any]:
        """What the node says of itself; raises `LoopSilent`. In any thread but the loop's."""
        with self._lock:
            if self._asked is None or self._asked.done():
                asked: Future[dict[str, Any]] = Future()
                self._asked = asked
                self.asked += 1
                self._call(lambda: _answer(asked, self.node))
            asked = self._asked
        return _waited_for(asked, ANSWER_S)

    def lead(self, group: str, node: str) -> str:
        """Let that node lead; why not, or nothing."""
        work: Coroutine[Any, Any, str] = let_lead(self.node, group, node)
        assert self._loop is not None, "after open"
        return _waited_for(asyncio.run_coroutine_threadsafe(work, self._loop), HAND_OVER_S + ANSWER_S)

    def _call(self, work: Callable[[], None]) -> None:
        assert self._loop is not None, "after open"
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            raise LoopSilent("the node stops") from None


def _answer(asked: Future[dict[str, Any]], node: Node) -> None:
    try:
        asked.set_result(status_of(node))
    except Exception as error:  # whoever asked hears of it, and nobody else
        asked.set_exception(error)


def _waited_for(future: Future[T], seconds: float) -> T:
    try:
        return future.result(seconds)
    except Late:
        raise LoopSilent(f"the node's loop has not answered for {seconds:g} s") from None


class Server(ThreadingHTTPServer):
    """The socket, and a thread for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 2 * CONNECTIONS_MAX

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        host, port = host_and_port(admin.address)
        ip = ip_of(host)
        self.address_family = socket.AF_INET6 if ip is not None and ip.version == 6 else socket.AF_INET
        self.over = False
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        """As a plain server: what HTTP's own does looks up a name for the address."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def run(self) -> None:
        """Take connections until it is stopped."""
        while not self.over:
            try:
                request, address = self.get_request()
            except OSError:
                if not self.over:  # no files left, say
                    time.sleep(0.1)
                continue
            with self._lock:
                if len(self._open) >= CONNECTIONS_MAX:
                    oldest = next(iter(self._open))
                    del self._open[oldest]
                    _end(oldest)
                self._open[request] = None
            try:
                self.process_request(request, address)
            except RuntimeError:  # no thread is to be had
                self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """It has been answered."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asks and goes away is nobody's trouble."""

    def stop(self) -> None:
        """Take no more."""
        self.over = True
        _end(self.socket)  # wakes the thread that waits for connections
        self.server_close()
        with self._lock:
            for request in self._open:
                _end(request)


def _end(found: socket.socket) -> None:
    with suppress(OSError):
        found.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    timeout = SILENCE_S
    server: Server

    def do_GET(self) -> None:
        """How the node is."""
        path = urlsplit(self.path).path
        if path not in ("/metrics", "/healthz", "/status"):
            return self._say(404, TEXT, "there is /metrics, /healthz and /status\n")
        try:
            status = self.server.admin.status()
        except Exception as error:
            if not isinstance(error, LoopSilent):
                log.exception("an error that should not be")
            return self._say(503, TEXT, f"{error}\n")
        if path == "/metrics":
            return self._say(200, METRICS, self.server.admin.render(status).decode())
        if path == "/status":
            return self._say(200, JSON, json.dumps(status) + "\n")
        unwell = status["unwell"]
        self._say(503 if unwell else 200, TEXT, "".join(f"{why}\n" for why in unwell or ["ok"]))

    def do_POST(self) -> None:
        """What an operator wants."""
        wanted = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(wanted.query).items()}
        if wanted.path != "/lead" or given.keys() != {"group", "node"}:
            return self._say(404, TEXT, "there is /lead?group=GROUP&node=NODE\n")
        if HEADER not in self.headers:
            return self._say(403, TEXT, f"a request that changes something has a header {HEADER}\n")
        try:
            why_not = self.server.admin.lead(given["group"], given["node"])
        except BraidcastError as error:
            why_not = str(error)
        self._say(409 if why_not else 200, TEXT, f"{why_not or 'done'}\n")

    def _say(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """What the header `Server` says."""
        return "braidcast"

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape every few seconds is no event."""
