"""Opens the store of a Streaming Controller, and locks its data directory against other processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tailrace.controller.key_value.interface import KeyValueStore, StoreCorrupt, StoreRefused, StoreUnavailable
from tailrace.controller.key_value.opening import open_store
from tailrace.runtime.directories import make_directories_durably
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.seams import Seams

from .serving import CannotServeError

LOCK_FILE = "lock"
ANY_KEY = "cluster"
ANSWER_SECONDS_MAX = 60
RETRY_SECONDS = 1.0


@asynccontextmanager
async def opened_store(
    name: str, directory: str, seams: Seams, logger: FilteringBoundLogger, config: str | None = None
) -> AsyncIterator[KeyValueStore]:
    """Opens the store with the name in `--store`; waits a while if it is a server that may still be starting.

    `config` is the file of `--store-config`.
    """
    try:
        await make_directories_durably(seams.files, directory)
        lock = seams.files.lock(f"{directory}/{LOCK_FILE}")
    except OSError as error:
        raise CannotServeError(f"{directory}: {error.strerror}; choose another directory with --data") from error
    if lock is None:
        from tailrace.runtime.neighbours.occupants import directory_in_use  # imported here because few starts fail

        raise CannotServeError(directory_in_use(seams.files, directory, f"{directory}/{LOCK_FILE}"))
    try:
        try:
            store = await open_store(name, directory, seams, config)
        except (StoreCorrupt, StoreUnavailable) as error:
            raise CannotServeError(str(error)) from error
        try:
            await _until_it_answers(store, name, logger)
            yield store
        finally:
            with trio.CancelScope(shield=True):
                await store.close()
    finally:
        lock.release()


async def _until_it_answers(store: KeyValueStore, name: str, logger: FilteringBoundLogger) -> None:
    deadline = trio.current_time() + ANSWER_SECONDS_MAX
    logged = ""
    while True:
        try:
            await store.get(ANY_KEY)
            return
        except (StoreCorrupt, StoreRefused) as error:
            raise CannotServeError(str(error)) from error
        except StoreUnavailable as error:
            if trio.current_time() >= deadline:
                raise CannotServeError(
                    f"the store {name} has not answered for {ANSWER_SECONDS_MAX} seconds: {error}"
                ) from error
            if str(error) != logged:
                logged = str(error)
                logger.warning("store_unavailable", doing="waiting for its first response", reason=logged)
            await trio.sleep(RETRY_SECONDS)
