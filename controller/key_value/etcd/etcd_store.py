"""The key-value store in etcd, for an SC with standby SCs.

etcd also holds the lease of the active SC. The store uses the JSON gateway, which every etcd has from 3.4 on.
"""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Struct

from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Change,
    Delete,
    Entry,
    LeadershipLost,
    Listing,
    Put,
    WatchEvent,
    check_sizes,
)
from tailrace.runtime.chance import Chance
from tailrace.runtime.network import Address, Network

from .etcd_gateway import CALL_SECONDS_MAX, NOT_FOUND, OUT_OF_RANGE, EtcdError, EtcdGateway
from .etcd_login import EtcdLogin
from .etcd_messages import (
    KeySpace,
    get_request,
    in_transactions,
    page_request,
    revision_of,
    take_request,
    write_request,
    written,
)
from .etcd_watch import EtcdWatch

PREFIX = "/tailrace/"
RENEWAL_CALL_SHARE = 1 / 8
"""The part of a lease that one call of a renewal may take. A renewal makes two calls, and then has time to retry."""


class _Lease(Struct, frozen=True):
    id: str
    call_seconds_max: float


class EtcdStore:
    def __init__(
        self,
        network: Network,
        chance: Chance,
        endpoints: Sequence[Address],
        *,
        prefix: str = PREFIX,
        call_seconds_max: float = CALL_SECONDS_MAX,
        login: EtcdLogin | None = None,
    ) -> None:
        """Uses the first endpoint that responds. All keys begin with `prefix`, which must not be empty."""
        self._gateway = EtcdGateway(network, endpoints, call_seconds_max, login)
        self._chance = chance
        self._space = KeySpace(prefix.encode())
        self._leases: dict[tuple[str, int], _Lease] = {}
        """The leases of the entries that this store object has taken, by key and version."""

    async def get(self, key: str) -> Entry | None:
        return await self._get(key, math.inf)

    async def _get(self, key: str, seconds_max: float) -> Entry | None:
        response = await self._gateway.call("/v3/kv/range", get_request(self._space, key), seconds_max)
        found = [self._space.entry(each) for each in response.get("kvs", ())]
        return found[0] if found else None

    async def list(self, prefix: str) -> Listing:
        while True:
            try:
                return await self._list_pages(prefix)
            except EtcdError as error:
                if error.code != OUT_OF_RANGE:
                    raise
                # The revision was compacted away between two pages. Begin again.

    async def _list_pages(self, prefix: str) -> Listing:
        entries: list[Entry] = []
        revision = 0
        while True:
            request = page_request(self._space, prefix, entries[-1] if entries else None, revision)
            response = await self._gateway.call("/v3/kv/range", request)
            revision = revision or revision_of(response)
            entries += map(self._space.entry, response.get("kvs", ()))
            if not response.get("more"):
                return Listing(tuple(entries), revision)

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        check_sizes(changes)
        outcomes: list[int | None] = []
        for part in in_transactions(changes):
            response = await self._gateway.call("/v3/kv/txn", write_request(self._space, part, guard))
            if not response.get("succeeded"):
                assert guard is not None, "a transaction without a condition succeeds"
                raise LeadershipLost(f"{guard.key} has changed hands")
            outcomes += written(response, part)
        return outcomes

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return self._watch(prefix, after_revision)

    @asynccontextmanager
    async def _watch(self, prefix: str, after_revision: int) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        watch = EtcdWatch(self._gateway, self._chance, self._space, prefix, after_revision)
        try:
            yield watch
        finally:
            watch.close()

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        change = Put(key, value, NO_VERSION)
        check_sizes([change])
        if await self.get(key) is not None:
            return None
        ttl = {"TTL": str(math.ceil(ttl_seconds))}  # etcd counts in whole seconds.
        lease_id: str = (await self._gateway.call("/v3/lease/grant", ttl))["ID"]
        response = await self._gateway.call("/v3/kv/txn", take_request(self._space, change, lease_id))
        if not response.get("succeeded"):
            await self._revoke(lease_id)
            return None
        entry = Entry(key, value, revision_of(response))
        self._leases[key, entry.version] = _Lease(lease_id, ttl_seconds * RENEWAL_CALL_SHARE)
        return entry

    async def renew(self, entry: Entry) -> None:
        self._gateway.check_open()
        lease = self._leases.get((entry.key, entry.version))
        if lease is not None:
            response = await self._gateway.call("/v3/lease/keepalive", {"ID": lease.id}, lease.call_seconds_max)
            is_alive = int(response["result"].get("TTL", 0)) > 0
            found = await self._get(entry.key, lease.call_seconds_max)
            if is_alive and found is not None and found.version == entry.version:
                return
        raise LeadershipLost(f"the lease of {entry.key} has expired")

    async def give_up(self, entry: Entry) -> None:
        await self.write([Delete(entry.key, entry.version)])
        lease = self._leases.pop((entry.key, entry.version), None)
        if lease is not None:
            await self._revoke(lease.id)

    async def close(self) -> None:
        self._gateway.close()

    async def _revoke(self, lease_id: str) -> None:
        try:
            await self._gateway.call("/v3/lease/revoke", {"ID": lease_id})
        except EtcdError as error:
            if error.code != NOT_FOUND:
                raise
