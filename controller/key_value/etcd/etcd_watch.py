"""A watch on etcd that survives lost connections.

It continues after the last revision that arrived completely. It has no task of its own. A slow reader slows down the
connection, and etcd keeps the history.
"""

from collections import deque
from typing import Any

import trio

from tailrace.controller.key_value.interface import EntryPut, FellBehind, StoreUnavailable, WatchEvent
from tailrace.runtime.chance import Chance

from .etcd_gateway import EtcdGateway, EtcdStream
from .etcd_messages import KeySpace, revision_of, watch_request

# A connection whose other end has vanished looks like one without events, so a silent one is replaced after this time.
SILENCE_SECONDS_MAX = 15.0
BACKOFF_SECONDS = 0.05
BACKOFF_SECONDS_MAX = 2.0


class EtcdWatch:
    def __init__(self, gateway: EtcdGateway, chance: Chance, space: KeySpace, prefix: str, after_revision: int) -> None:
        self._gateway = gateway
        self._chance = chance
        self._space = space
        self._prefix = prefix
        self._revision = after_revision
        """The revision up to which all changes have been received."""
        self._events: deque[WatchEvent] = deque()
        self._fragments: list[WatchEvent] = []
        self._stream: EtcdStream | None = None
        self._heard_at = 0.0
        self._failures = 0

    def __aiter__(self) -> "EtcdWatch":
        return self

    async def __anext__(self) -> WatchEvent:
        await trio.lowlevel.checkpoint()
        while not self._events:
            self._gateway.check_open()
            try:
                stream = self._stream or await self._open()
                with trio.move_on_at(self._heard_at + SILENCE_SECONDS_MAX) as silence:
                    self._take_in(await stream.next())
                if silence.cancelled_caught:
                    self.close()
            except StoreUnavailable:
                self.close()
                self._gateway.check_open()
                await self._back_off()
        return self._events.popleft()

    def close(self) -> None:
        """Closes the connection. If the watch is read again, it opens another one."""
        self._fragments.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _open(self) -> EtcdStream:
        request = watch_request(self._space, self._prefix, self._revision)
        self._stream = await self._gateway.open_stream("/v3/watch", request)
        self._heard_at = trio.current_time()
        return self._stream

    def _take_in(self, response: Any) -> None:
        if "compact_revision" in response or revision_of(response) < self._revision:
            self.close()
            raise FellBehind(f"etcd no longer has all changes after revision {self._revision}")
        if response.get("canceled"):
            if self._stream is not None:
                self._stream.forget_token()
            raise StoreUnavailable(f"etcd has ended a watch: {response.get('cancel_reason', 'no reason given')}")
        self._heard_at = trio.current_time()
        self._failures = 0
        self._fragments += map(self._space.event, response.get("events", ()))
        if response.get("fragment"):
            return
        self._events += self._fragments
        if self._fragments:
            self._revision = _revision_of(self._fragments[-1])
        self._fragments.clear()

    async def _back_off(self) -> None:
        seconds = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2 ** min(self._failures, 10))
        self._failures += 1
        await trio.sleep(seconds * (0.5 + self._chance.fraction() / 2))


def _revision_of(event: WatchEvent) -> int:
    return event.entry.version if isinstance(event, EntryPut) else event.version
