"""The key-value store in Kubernetes, for an SC with standby SCs in pods.

Kubernetes needs no other store beside it then. See `store_objects` for the objects that it holds.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import trio
from msgspec import Struct

from tailrace.controller.key_value.history import CHANGES_MAX, History, HistoryWatch
from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Change,
    Delete,
    Entry,
    LeadershipLost,
    Listing,
    Put,
    StoreCorrupt,
    StoreUnavailable,
    WatchEvent,
    check_sizes,
)
from tailrace.runtime.chance import Chance

from .kubernetes_api import KubernetesApi
from .lease_observer import LeaseObserver
from .store_objects import (
    HEAD_TYPE,
    LEASE_TYPE,
    SNAPSHOT_TYPE,
    TRANSACTION_TYPE,
    Head,
    Names,
    SnapshotPlace,
    head_of,
    head_spec,
    snapshot_spec,
    stored_in,
    transaction_of,
    transaction_spec,
)
from .transaction_log import Contents, Lease, Stored, Transaction, in_parts, in_snapshot_parts

CLUSTER = "tailrace"
POLL_SECONDS = 0.5
"""How often a watch looks for the transactions of other SCs. The transactions of this process are seen at once."""
SNAPSHOT_TRANSACTIONS = 256
"""After how many transactions a snapshot is made, so that a start reads no more than twice as many."""
REMOVED_AT_ONCE = 4
RENEWAL_SHARE = 1 / 8
"""The part of a lease that a renewal may take, so that there is time to try again."""


class _Held(Struct):
    lease: Lease
    object_version: str
    renewals: int = 0


class KubernetesStore:
    def __init__(
        self,
        api: KubernetesApi,
        chance: Chance,
        *,
        cluster: str = CLUSTER,
        history_changes_max: int = CHANGES_MAX,
        snapshot_transactions: int = SNAPSHOT_TRANSACTIONS,
    ) -> None:
        """`cluster` is part of the names of all objects."""
        self._api = api
        self._chance = chance
        self._names = Names(cluster)
        self._snapshot_transactions = snapshot_transactions
        self._contents = Contents()
        self._head: Head | None = None
        self._is_loaded = False
        self._read_at = -math.inf
        self._history = History(0, history_changes_max)
        self._observer = LeaseObserver()
        self._held: dict[tuple[str, int], _Held] = {}
        """The leases of the entries that this store object has taken, by key and version."""
        self._obsolete: deque[str] = deque()
        """Objects that no reader needs any more."""
        self._lock = trio.Lock()

    async def get(self, key: str) -> Entry | None:
        async with self._lock:
            await self._read()
            stored = self._contents.get(key)
            return None if stored is None else stored.entry

    async def list(self, prefix: str) -> Listing:
        async with self._lock:
            await self._read()
            return Listing(self._contents.entries(prefix), self._contents.revision)

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        check_sizes(changes)
        outcomes: list[int | None] = []
        async with self._lock:
            for part in in_parts(changes):
                outcomes += await self._write_part(part, guard)
            if not changes:
                await self._read()
                self._check(guard)
        return outcomes

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return nullcontext(HistoryWatch(self._history, prefix, after_revision, self._poll))

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        change = Put(key, value, NO_VERSION)
        check_sizes([change])
        async with self._lock:
            await self._read()
            stored = self._contents.get(key)
            if stored is not None and not await self._expire(stored):
                return None
            lease = Lease(self._names.lease(self._chance.uuid().hex), ttl_seconds)
            created = await self._api.create(lease.name, self._names.labels(LEASE_TYPE), {"renewals": 0})
            if created is None:
                raise StoreUnavailable(f"{lease.name} exists already")
            (version,) = await self._write_part([change], None, lease)
            if version is None:
                await self._api.delete(lease.name)
                return None
            self._held[key, version] = _Held(lease, created["metadata"]["resourceVersion"])
            return Entry(key, value, version)

    async def renew(self, entry: Entry) -> None:
        self._api.check_open()
        held = self._held.get((entry.key, entry.version))
        if held is None:
            raise LeadershipLost(f"the lease of {entry.key} has expired")
        with trio.move_on_after(held.lease.seconds * RENEWAL_SHARE) as limit:
            async with self._lock:
                await self._read()
                if self._contents.version(entry.key) != entry.version or not await self._renew(held):
                    raise LeadershipLost(f"the lease of {entry.key} has expired")
        if limit.cancelled_caught:
            raise StoreUnavailable("Kubernetes has not renewed the lease in time")

    async def give_up(self, entry: Entry) -> None:
        async with self._lock:
            await self._write_part([Delete(entry.key, entry.version)], None)
            held = self._held.pop((entry.key, entry.version), None)
            if held is not None:
                await self._api.delete(held.lease.name)

    async def close(self) -> None:
        self._history.close()
        self._api.close()
        await trio.lowlevel.checkpoint()

    async def _write_part(
        self, part: Sequence[Change], guard: Entry | None, lease: Lease | None = None
    ) -> Sequence[int | None]:
        """Writes changes as one transaction, once it follows directly on what this store object knows."""
        is_fresh = False
        if not self._is_loaded:
            await self._read()
            is_fresh = True
        while True:
            outcomes, transaction = self._contents.plan(part, lease)
            is_refused = None in outcomes or self._has_changed(guard)
            # What is known may be old. To write is safe all the same, to refuse is not.
            if is_fresh or not is_refused:
                self._check(guard)
                if transaction is None or await self._commit(transaction):
                    return outcomes
            await self._read()
            is_fresh = True

    def _has_changed(self, guard: Entry | None) -> bool:
        return guard is not None and self._contents.version(guard.key) != guard.version

    def _check(self, guard: Entry | None) -> None:
        if guard is not None and self._has_changed(guard):
            raise LeadershipLost(f"{guard.key} has changed hands")

    async def _commit(self, transaction: Transaction) -> bool:
        """Makes a transaction the newest one. Returns False if another SC has written one in the meantime."""
        self._api.check_open()
        head = self._head
        labels = self._names.labels(HEAD_TYPE)
        if head is None:
            new = Head(transaction)
            document = await self._api.create(self._names.head, labels, head_spec(new))
        else:
            await self._archive(head.transaction)
            new = Head(transaction, await self._snapshot(head))
            document = await self._api.replace(self._names.head, labels, head_spec(new), head.version)
        if document is None:
            return False
        self._head = head_of(document)
        self._history.add(self._contents.apply(transaction))
        await self._tidy(head, new)
        return True

    async def _archive(self, transaction: Transaction) -> None:
        """Copies the transaction of the head into an object of its own, unless another SC has done so."""
        name = self._names.transaction(transaction.number)
        await self._api.create(name, self._names.labels(TRANSACTION_TYPE), transaction_spec(transaction))

    async def _snapshot(self, head: Head) -> SnapshotPlace:
        """Returns the place of the last snapshot, or that of a new one if the last one is too old."""
        number = head.transaction.number
        if number - head.snapshot.number < self._snapshot_transactions:
            return head.snapshot
        unique = self._chance.uuid().hex[:12]
        parts: list[str] = []
        for stored in in_snapshot_parts(self._contents.all()):
            parts.append(self._names.snapshot_part(number, unique, len(parts)))
            spec = snapshot_spec(number, stored)
            await self._api.create(parts[-1], self._names.labels(SNAPSHOT_TYPE), spec)
        return SnapshotPlace(number, self._contents.revision, tuple(parts))

    async def _tidy(self, before: Head | None, now: Head) -> None:
        """Removes some objects that no reader needs: old snapshots, and transactions up to the last but one snapshot.

        An SC that is about to read the last but one snapshot can still do so.
        """
        try:
            if before is not None and before.snapshot != now.snapshot:
                self._obsolete = deque(await self._found_obsolete(before.snapshot.number))
            for _ in range(min(len(self._obsolete), REMOVED_AT_ONCE)):
                await self._api.delete(self._obsolete[0])
                self._obsolete.popleft()
        except StoreUnavailable:
            pass  # They are found again after the next snapshot.

    async def _found_obsolete(self, number: int) -> Sequence[str]:
        transactions = await self._api.names(self._names.labels(TRANSACTION_TYPE))
        snapshots = await self._api.names(self._names.labels(SNAPSHOT_TYPE))
        return [name for name in transactions if self._names.number_of(name) <= number] + [
            name for name in snapshots if self._names.number_of(name) < number
        ]

    async def _read(self) -> None:
        """Takes in what other SCs have written."""
        self._api.check_open()
        document = await self._api.get(self._names.head)
        if document is None:
            if self._head is not None:
                raise StoreCorrupt(f"{self._names.head} has been removed from Kubernetes while the SC was using it")
            self._is_loaded = True
        else:
            await self._take_in(head_of(document))
        self._read_at = trio.current_time()

    async def _take_in(self, head: Head) -> None:
        number = head.transaction.number
        if self._is_loaded and number < self._contents.number:
            raise StoreCorrupt(
                f"{self._names.head} has gone back from transaction {self._contents.number} to {number}; "
                "start the SC again to use the restored contents"
            )
        if not self._is_loaded or not await self._apply_up_to(head):
            await self._load(head)
        self._head = head

    async def _apply_up_to(self, head: Head) -> bool:
        """Applies the transactions up to that of the head. Returns False if an older one is not kept any more."""
        missing = await self._transactions(self._contents.number, head)
        if missing is None:
            return False
        for transaction in missing:
            self._history.add(self._contents.apply(transaction))
        return True

    async def _load(self, head: Head) -> None:
        """Loads the last snapshot and what follows it."""
        stored: list[Stored] = []
        for name in head.snapshot.parts:
            part = await self._api.get(name)
            if part is None:
                raise StoreUnavailable(f"{name} has been replaced while the SC was reading it")
            stored += stored_in(part)
        missing = await self._transactions(head.snapshot.number, head)
        if missing is None:
            raise StoreUnavailable("transactions were removed while the SC was reading them")
        contents = Contents.restored(head.snapshot.number, head.snapshot.revision, stored)
        self._contents = contents
        self._history.skip_to(contents.revision)
        for transaction in missing:
            self._history.add(contents.apply(transaction))
        self._is_loaded = True

    async def _transactions(self, after: int, head: Head) -> Sequence[Transaction] | None:
        """Returns the transactions after a number, up to that of the head; None if one is not kept any more."""
        found: list[Transaction] = []
        for number in range(after + 1, head.transaction.number):
            document = await self._api.get(self._names.transaction(number))
            if document is None:
                return None
            found.append(transaction_of(document))
        if head.transaction.number > after:
            found.append(head.transaction)
        return found

    async def _poll(self) -> float:
        """Takes in what other SCs have written, and removes expired entries. Returns when to look again."""
        async with self._lock:
            self._api.check_open()
            if trio.current_time() >= self._read_at + POLL_SECONDS:
                try:
                    await self._read()
                    for stored in self._contents.leased():
                        await self._expire(stored)
                except StoreUnavailable:
                    self._api.check_open()
                    self._read_at = trio.current_time()
        return trio.current_time() + POLL_SECONDS

    async def _expire(self, stored: Stored) -> bool:
        """Removes the entry if its lease has expired. Returns whether it did."""
        lease = stored.lease
        if lease is None:
            return False
        document = await self._api.get(lease.name)
        if document is not None:
            version = str(document["metadata"]["resourceVersion"])
            self._observer.keep_only({each.lease.name for each in self._contents.leased() if each.lease})
            if not self._observer.is_expired(lease, version, trio.current_time()):
                return False
            # If the holder renews it at this moment, the version has changed, and the lease stays.
            if not await self._api.delete(lease.name, version):
                return False
        await self._write_part([Delete(stored.entry.key, stored.entry.version)], None)
        return True

    async def _renew(self, held: _Held) -> bool:
        """Renews the lease. Returns False if it has expired."""
        labels = self._names.labels(LEASE_TYPE)
        held.renewals += 1
        spec = {"renewals": held.renewals}
        document = await self._api.replace(held.lease.name, labels, spec, held.object_version)
        if document is None:
            # An earlier renewal may have been carried out although its response was lost.
            current = await self._api.get(held.lease.name)
            if current is None:
                return False
            held.object_version = str(current["metadata"]["resourceVersion"])
            document = await self._api.replace(held.lease.name, labels, spec, held.object_version)
            if document is None:
                return False
        held.object_version = str(document["metadata"]["resourceVersion"])
        return True
