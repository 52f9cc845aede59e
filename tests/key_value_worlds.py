"""What tests of key-value stores share: a store as several SCs see it, and time that passes for it."""

import json
import time
import urllib.request
from collections.abc import Awaitable, Callable

import trio
from etcd_server import Etcd
from msgspec import Struct
from trio.testing import MockClock, wait_all_tasks_blocked

from tailrace.controller.key_value.interface import KeyValueStore
from tailrace.runtime.network import Address

HISTORY_CHANGES_MAX = 400


class World(Struct):
    """One store as the SCs of one cluster see it."""

    store: KeyValueStore
    another: Callable[[], KeyValueStore]
    """The same store, for another SC."""
    forget_history: Callable[[], Awaitable[None]]
    """No watch is told any more what changed up to now."""


class RealClock(trio.abc.Clock):
    """Time as it is, for a store whose server has a clock of its own."""

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return time.perf_counter()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


async def pass_time(clock: trio.abc.Clock, seconds: float) -> None:
    await wait_all_tasks_blocked()
    if isinstance(clock, MockClock):
        clock.jump(seconds)
    else:
        await trio.sleep(seconds)


def address_of(server: Etcd) -> Address:
    host, _, port = server.endpoint.partition(":")
    return Address(host, int(port))


def compact_etcd(endpoint: Address, revision: int) -> None:
    body = json.dumps({"revision": revision, "physical": True}).encode()
    request = urllib.request.Request(f"http://{endpoint}/v3/kv/compaction", body)
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
