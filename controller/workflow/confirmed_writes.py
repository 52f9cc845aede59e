"""Writes objects for a caller that waits for the outcome, and for the effects of its writes.

The updater for the KV store may forget a write that was lost, since controllers decide again. The request of a person
is planned only once. So the caller learns which of its writes succeeded, and goes on when the Local Store has them: the
next change is planned from the result of this one.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import trio

from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.interface import Entry, KeyValueStore, LeadershipLost, StoreUnavailable
from tailrace.controller.objects.objects import Partition, PartitionResolution, Spu, SpuGroup, Topic
from tailrace.controller.state.actions import KvAction
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import ObjectError, OversizedError, change_of, decode, key_of
from tailrace.controller.state.object_names import ObjectNames
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.logs import FilteringBoundLogger, shows_debug

from .readers import Backoff

NO_KEYS: Mapping[str, int] = MappingProxyType({})


class ConfirmedWrites:
    def __init__(
        self,
        store: KeyValueStore,
        local: LocalStore,
        logger: FilteringBoundLogger,
        guard: Entry | None = None,
        unreadable: Mapping[str, int] = NO_KEYS,
    ) -> None:
        """`guard` is the entry by which this SC is active, if there may be several SCs.

        `unreadable` has the keys in the store whose values cannot be read now; writes to these are refused.
        """
        self._store = store
        self._local = local
        self._names = ObjectNames(local)
        self._logger = logger
        self._guard = guard
        self._unreadable = unreadable
        self._revision = 0
        self._changed = trio.Event()
        self._closing: KafkaError | None = None

    # called by the workflow

    def on_applied(self, revision: int) -> None:
        """Notes that the Local Store and the mirror have all changes up to this revision of the KV store."""
        self._revision = max(self._revision, revision)
        self._wake()

    def close(self) -> None:
        """Makes all waiting and later calls fail, so that clients turn to another SC."""
        self._closing = KafkaError(ErrorCode.NOT_CONTROLLER, "the Streaming Controller is stopping, or leads no more")
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # called for requests

    async def wait_until(self, reached: Callable[[], bool]) -> None:
        """Waits until a condition on the Local Store or the mirror is true. Raises KafkaError when closed."""
        self._check_open()
        while not reached():
            await self._changed.wait()
            self._check_open()

    async def write(self, actions: Sequence[KvAction]) -> list[bool]:
        """Carries out the actions; see `write_changes`."""
        return await self.write_changes([self.change_of(action) for action in actions])

    def change_of(self, action: KvAction) -> key_value.Change:
        """Returns the change of the KV store for an action. Raises KafkaError if the store would refuse it."""
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
        """Writes the changes and returns whether each succeeded, once the Local Store has the outcome.

        The outcome of a change that lost its compare-and-set is the newer version of its object. Waits as long as the
        store does not respond. Raises KafkaError if the SC stops or is not active any more.
        """
        self._check_open()
        if not changes:
            return []
        versions = await self._write(changes)
        if shows_debug():
            objects = [self._names.of_key(change.key) for change in changes]
            self._logger.debug("update_written", updater="administration", changes=len(changes), objects=objects)
        for change, version in zip(changes, versions, strict=True):
            await self.wait_until(_is_seen(self, change, version))
        return [version is not None for version in versions]

    async def _write(self, changes: Sequence[key_value.Change]) -> list[int | None]:
        backoff = Backoff()
        in_doubt = False
        while True:
            try:
                versions = list(await self._store.write(changes, self._guard))
                if in_doubt:
                    versions = [
                        await self._version_of_earlier_write(change) if version is None else version
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

    async def _version_of_earlier_write(self, change: key_value.Change) -> int | None:
        """Returns the version that an earlier attempt without a response has written, or None if it wrote nothing."""
        entry = await self._store.get(change.key)
        if isinstance(change, key_value.Delete):
            return change.version if entry is None else None
        return entry.version if entry is not None and _has_wanted_content(entry, change) else None

    def has_seen(self, change: key_value.Change, version: int | None) -> bool:
        """Tells whether the Local Store has the outcome of a change, which wrote `version` or lost for None."""
        known = self._local.objects.get(change.key)
        known_version = key_value.NO_VERSION if known is None else known.version
        if version is None or isinstance(change, key_value.Delete):
            return known_version != change.version
        # Objects that were written together have the same version, and others of them may have come first.
        return self._revision > version or known_version == version

    def _check_open(self) -> None:
        if self._closing is not None:
            raise self._closing


def _is_seen(writes: ConfirmedWrites, change: key_value.Change, version: int | None) -> Callable[[], bool]:
    return lambda: writes.has_seen(change, version)


def _has_wanted_content(entry: Entry, change: key_value.Put) -> bool:
    """Tells whether the entry has the content of the change. The status may differ if controllers have changed it."""
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
