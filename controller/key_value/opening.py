"""Opens the key-value store that the settings name.

Each kind of store is imported only when it is used.
"""

from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import SettingsError, parse_address

from .interface import KeyValueStore

MEMORY = "memory"
SQLITE = "sqlite"
ETCD = "etcd://"
SQLITE_FILE = "store.sqlite"


def check_store_name(text: str, where: str) -> None:
    """Raises SettingsError if `open_store` does not know this kind of store."""
    if text.startswith(ETCD):
        for endpoint in text.removeprefix(ETCD).split(","):
            parse_address(endpoint, where, port_min=1)
    elif text not in (MEMORY, SQLITE):
        raise SettingsError(f"{where}: {text!r} is not {MEMORY}, {SQLITE} or {ETCD}HOST:PORT[,HOST:PORT...]")


async def open_store(text: str, directory: str, seams: Seams) -> KeyValueStore:
    """Opens `memory`, `sqlite` (a file in the directory, whose lock the caller holds), or `etcd://HOST:PORT,HOST:PORT`.

    Raises StoreCorrupt or StoreUnavailable for SQLite. An etcd is not contacted yet.
    """
    check_store_name(text, "store")
    if text == MEMORY:
        from .memory import MemoryStore

        return MemoryStore()
    if text == SQLITE:
        from .sqlite import open_sqlite

        return await open_sqlite(f"{directory}/{SQLITE_FILE}")
    from tailrace.controller.key_value.etcd.etcd_store import EtcdStore

    endpoints = [parse_address(endpoint, "store", port_min=1) for endpoint in text.removeprefix(ETCD).split(",")]
    return EtcdStore(seams.network, seams.chance, endpoints)
