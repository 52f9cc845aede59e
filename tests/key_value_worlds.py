"""Shared parts of tests of key-value stores: a store with several SCs, and its time."""

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
    """Opens the same store for another SC."""
    forget_history: Callable[[], Awaitable[None]]
    """Drops the history, so that watches miss all changes up to now."""


class RealClock(trio.abc.Clock):
    """The real time, for a store whose server has its own clock."""

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
