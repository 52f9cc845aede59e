"""Writes of objects by whoever must know what became of them, and waiting for what follows from them.

An updater may forget: what it lost is decided again. A person's request is decided once, so whoever carries it out asks
here, gets told which of its writes counted, and goes on when the Local Store has seen them: the next change is planned
from what this one made.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.interface import Entry, KeyValueStore, LeadershipLost, StoreUnavailable
from tailrace.controller.objects.objects import Partition, PartitionResolution, Spu, SpuGroup, Topic
from tailrace.controller.state.actions import KvAction
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import ObjectError, OversizedError, change_of, decode, key_of
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .readers import Backoff

NOTHING: Mapping[str, int] = MappingProxyType({})


class ConfirmedWrites:
    def __init__(
        self,
        store: KeyValueStore,
        local: LocalStore,
        logger: FilteringBoundLogger,
        guard: Entry | None = None,
        unreadable: Mapping[str, int] = NOTHING,
    ) -> None:
        """`guard` is the entry by which this SC leads, where there may be others. `unreadable`: keys of the store
        under which something lies that cannot be read now: nothing can be planned from it."""
        self._store = store
        self._local = local
        self._logger = logger
        self._guard = guard
        self._unreadable = unreadable
        self._revision = 0
        self._changed = trio.Event()
        self._closing: KafkaError | None = None

    # what happened

    def on_applied(self, revision: int) -> None:
        """The Local Store has what the KV store reported up to this revision; the mirror has it too."""
        self._revision = max(self._revision, revision)
        self._wake()

    def close(self) -> None:
        """Whoever waits here, and whoever comes, is told to turn to another SC."""
        self._closing = KafkaError(ErrorCode.NOT_CONTROLLER, "the Streaming Controller is stopping, or leads no more")
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # what callers ask

    async def until(self, reached: Callable[[], bool]) -> None:
        """Waits for something that is looked up in the Local Store or the mirror. Raises KafkaError when closed."""
        self._check_open()
        while not reached():
            await self._changed.wait()
            self._check_open()

    async def write(self, actions: Sequence[KvAction]) -> list[bool]:
        return await self.write_changes([self.change_of(action) for action in actions])

    def change_of(self, action: KvAction) -> key_value.Change:
        """Raises KafkaError where the store would not take it."""
        key = key_of(action.object)
        if key in self._unreadable:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the store has something under {key} that cannot be read, and nothing is written over it: see the log "
                "of the Streaming Controller",
            )
        try:
            return change_of(action)
        except OversizedError as error:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{key} would take {error.size_bytes} bytes; the store takes {key_value.VALUE_BYTES_MAX} of one object",
            ) from error

    async def write_changes(self, changes: Sequence[key_value.Change]) -> list[bool]:
        """Whether each was written, once the Local Store knows it; for one that was not, it knows why by then.

        Waits for as long as the store does not answer. Raises KafkaError when there is no use in waiting.
        """
        self._check_open()
        if not changes:
            return []
        versions = await self._write(changes)
        self._logger.debug("update_written", updater="administration", changes=len(changes))
        for change, version in zip(changes, versions, strict=True):
            await self.until(_seen(self, change, version))
        return [version is not None for version in versions]

    async def _write(self, changes: Sequence[key_value.Change]) -> list[int | None]:
        backoff = Backoff()
        in_doubt = False
        while True:
            try:
                versions = list(await self._store.write(changes, self._guard))
                if in_doubt:
                    versions = [
                        await self._written_before(change) if version is None else version
                        for change, version in zip(changes, versions, strict=True)
                    ]
                return versions
            except StoreUnavailable as reason:
                self._logger.warning("store_unavailable", doing="writing", reason=str(reason))
                in_doubt = True
                await backoff.wait()
                self._check_open()
            except LeadershipLost as reason:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, f"another Streaming Controller leads: {reason}") from reason

    async def _written_before(self, change: key_value.Change) -> int | None:
        """A write that was not answered may have counted; then the store has what it would have written."""
        entry = await self._store.get(change.key)
        if isinstance(change, key_value.Delete):
            return change.version if entry is None else None
        return entry.version if entry is not None and _has_what_was_wanted(entry, change) else None

    def has_seen(self, change: key_value.Change, version: int | None) -> bool:
        known = self._local.objects.get(change.key)
        known_version = key_value.NO_VERSION if known is None else known.version
        if version is None or isinstance(change, key_value.Delete):
            return known_version != change.version
        # Others that were written with it have the same version, and may have come before it.
        return self._revision > version or known_version == version

    def _check_open(self) -> None:
        if self._closing is not None:
            raise self._closing


def _seen(writes: ConfirmedWrites, change: key_value.Change, version: int | None) -> Callable[[], bool]:
    return lambda: writes.has_seen(change, version)


def _has_what_was_wanted(entry: Entry, change: key_value.Put) -> bool:
    """Controllers may have gone on from what was written: then only the status is another."""
    if entry.value == change.value:
        return True
    try:
        found, wanted = (decode(change.key, value, entry.version) for value in (entry.value, change.value))
    except ObjectError:
        return False
    match found, wanted:
        case Topic(), Topic():
            rows = wanted.status.replica_map.items()
            return (found.id, found.spec) == (wanted.id, wanted.spec) and rows <= found.status.replica_map.items()
        case (SpuGroup(spec=now), SpuGroup(spec=then)) | (Spu(spec=now), Spu(spec=then)):
            return now == then
        case Partition(status=now), Partition(status=then):
            is_election = then.resolution is PartitionResolution.CANDIDATE_FOUND
            return is_election and (now.leader, now.epoch) == (then.leader, then.epoch)
    return False
