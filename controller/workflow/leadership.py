"""Elects the active SC among several on one store, by a lease.

The active SC stops before another SC can hold the lease. Time alone cannot guarantee that. An SC that was paused for a
while is fenced by the guard on each of its writes.
"""

from collections.abc import Awaitable, Callable

import trio

from tailrace.controller.key_value.interface import (
    Entry,
    EntryDeleted,
    FellBehind,
    KeyValueStore,
    LeadershipLost,
    StoreUnavailable,
)
from tailrace.runtime.logs import FilteringBoundLogger

LEADER_KEY = "leader"
LEASE_SECONDS = 6.0
RETRY_SECONDS = 0.25
GIVE_UP_SECONDS_MAX = 2.0


async def lead(
    store: KeyValueStore,
    name: str,
    work: Callable[[Entry], Awaitable[None]],
    logger: FilteringBoundLogger,
    lease_seconds: float = LEASE_SECONDS,
) -> None:
    """Waits until no other SC is active, then runs `work` with the guard for its writes.

    Raises LeadershipLost if the lease could not be kept, after the work was cancelled and has ended. When the work ends
    by itself, or the caller is cancelled, the lease is given up at once, so that the next SC need not wait.
    """
    entry, held_until = await _take(store, name, logger, lease_seconds)
    logger.info("leadership_taken", name=name, version=entry.version)
    reasons: list[str] = []

    async def keep(term: trio.CancelScope) -> None:
        reasons.append(await _renew_until_lost(store, entry, held_until, lease_seconds, logger))
        term.cancel()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep, nursery.cancel_scope)
            await work(entry)
            nursery.cancel_scope.cancel()
    except* LeadershipLost:
        reasons.append("a write was refused")
    finally:
        if not reasons:
            await _give_up(store, entry, logger)
    if reasons:
        logger.warning("leadership_lost", name=name, reason=reasons[0])
        raise LeadershipLost(reasons[0])


async def _take(
    store: KeyValueStore, name: str, logger: FilteringBoundLogger, lease_seconds: float
) -> tuple[Entry, float]:
    """Waits for the lease. Returns its entry, and the time until which it is held at least."""
    while True:
        asked_at = trio.current_time()
        try:
            entry = await store.take(LEADER_KEY, name.encode(), lease_seconds)
            if entry is not None:
                return entry, asked_at + lease_seconds
            await _wait_until_lease_is_free(store, logger)
        except FellBehind:
            pass  # List again.
        except StoreUnavailable as error:
            logger.warning("store_unavailable", doing="waiting to lead", reason=str(error))
            await trio.sleep(RETRY_SECONDS)


async def _wait_until_lease_is_free(store: KeyValueStore, logger: FilteringBoundLogger) -> None:
    listing = await store.list(LEADER_KEY)
    leader = next((entry for entry in listing.entries if entry.key == LEADER_KEY), None)
    if leader is None:
        return
    logger.info("standing_by", leader=leader.value.decode(errors="replace"))
    async with store.watch(LEADER_KEY, listing.revision) as events:
        async for event in events:
            if isinstance(event, EntryDeleted) and event.key == LEADER_KEY:
                return


async def _renew_until_lost(
    store: KeyValueStore, entry: Entry, held_until: float, lease_seconds: float, logger: FilteringBoundLogger
) -> str:
    """Renews the lease when a third of it has passed, and returns the reason when that has failed for too long.

    A renewal counts from the moment at which it was sent, since only the store knows when it arrived.
    """
    while True:
        with trio.move_on_at(held_until):
            await trio.sleep_until(held_until - lease_seconds * 2 / 3)
            renewed = False
            while not renewed:
                sent_at = trio.current_time()
                try:
                    await store.renew(entry)
                    renewed = True
                except LeadershipLost as error:
                    return str(error)
                except StoreUnavailable as error:
                    logger.warning("store_unavailable", doing="renewing the lease", reason=str(error))
                    await trio.sleep(RETRY_SECONDS)
            held_until = sent_at + lease_seconds
            continue
        return f"the lease of {lease_seconds:g} s could not be renewed in time"


async def _give_up(store: KeyValueStore, entry: Entry, logger: FilteringBoundLogger) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + GIVE_UP_SECONDS_MAX):
        try:
            await store.give_up(entry)
        except StoreUnavailable as error:
            logger.warning("store_unavailable", doing="giving up the lease", reason=str(error))
