"""The store of a Streaming Controller, in a data directory that nobody else serves meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tailrace.controller.key_value.interface import KeyValueStore, StoreCorrupt, StoreUnavailable
from tailrace.controller.key_value.opening import open_store
from tailrace.runtime.directories import make_directories_durably
from tailrace.runtime.seams import Seams

from .serving import CannotServeError

LOCK_FILE = "lock"


@asynccontextmanager
async def opened_store(name: str, directory: str, seams: Seams) -> AsyncIterator[KeyValueStore]:
    """`name` as `--store` has it."""
    try:
        await make_directories_durably(seams.files, directory)
        lock = seams.files.lock(f"{directory}/{LOCK_FILE}")
    except OSError as error:
        raise CannotServeError(f"{directory}: {error.strerror}") from error
    if lock is None:
        raise CannotServeError(f"{directory} is in use by another tailrace process")
    try:
        try:
            store = await open_store(name, directory, seams)
        except (StoreCorrupt, StoreUnavailable) as error:
            raise CannotServeError(str(error)) from error
        try:
            yield store
        finally:
            with trio.CancelScope(shield=True):
                await store.close()
    finally:
        lock.release()
