"""Of several SCs on one store, one leads: it holds a lease, and stops before anybody else could hold it.

Time alone cannot prove that: what fences an SC that was stopped for a while is the guard on each of its writes.
"""

from collections.abc import Awaitable, Callable

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.controller.key_value.interface import (
    Entry,
    EntryDeleted,
    FellBehind,
    KeyValueStore,
    LeadershipLost,
    StoreUnavailable,
)

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
    """Waits until nobody else leads, then does the work, to which it gives the guard of its writes.

    LeadershipLost when the lease could not be kept: by then the work has been cancelled and is over. When the work
    ends by itself, or the caller is cancelled, the lease is given up at once, so that the next one need not wait.
    """
    entry, good_until = await _take(store, name, logger, lease_seconds)
    logger.info("leadership_taken", name=name, version=entry.version)
    reasons: list[str] = []

    async def keep(term: trio.CancelScope) -> None:
        reasons.append(await _until_lost(store, entry, good_until, lease_seconds, logger))
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
    """The key that it holds now, and until when at least."""
    while True:
        asked_at = trio.current_time()
        try:
            entry = await store.take(LEADER_KEY, name.encode(), lease_seconds)
            if entry is not None:
                return entry, asked_at + lease_seconds
            await _until_nobody_leads(store, logger)
        except FellBehind:
            pass  # look again
        except StoreUnavailable as error:
            logger.warning("store_unavailable", doing="waiting to lead", reason=str(error))
            await trio.sleep(RETRY_SECONDS)


async def _until_nobody_leads(store: KeyValueStore, logger: FilteringBoundLogger) -> None:
    listing = await store.list(LEADER_KEY)
    leader = next((entry for entry in listing.entries if entry.key == LEADER_KEY), None)
    if leader is None:
        return
    logger.info("standing_by", leader=leader.value.decode(errors="replace"))
    async with store.watch(LEADER_KEY, listing.revision) as events:
        async for event in events:
            if isinstance(event, EntryDeleted) and event.key == LEADER_KEY:
                return


async def _until_lost(
    store: KeyValueStore, entry: Entry, good_until: float, lease_seconds: float, logger: FilteringBoundLogger
) -> str:
    """Renews the lease three times as often as need be; why that did not go on.

    A renewal counts from the moment it was sent: when it arrived, only the store knows.
    """
    while True:
        with trio.move_on_at(good_until):
            await trio.sleep_until(good_until - lease_seconds * 2 / 3)
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
            good_until = sent_at + lease_seconds
            continue
        return f"the lease of {lease_seconds:g} s could not be renewed in time"


async def _give_up(store: KeyValueStore, entry: Entry, logger: FilteringBoundLogger) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + GIVE_UP_SECONDS_MAX):
        try:
            await store.give_up(entry)
        except StoreUnavailable as error:
            logger.warning("store_unavailable", doing="giving up the lease", reason=str(error))
