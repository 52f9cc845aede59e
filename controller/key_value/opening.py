"""Opens the key-value store that the settings name.

Each kind of store is imported only when it is used.
"""

from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import SettingsError, parse_address

from .interface import KeyValueStore

MEMORY = "memory"
SQLITE = "sqlite"
ETCD = "etcd://"
KUBERNETES = "kubernetes"
SQLITE_FILE = "store.sqlite"


def check_store_name(text: str, where: str) -> None:
    """Raises SettingsError if `open_store` does not know this kind of store."""
    if text.startswith(ETCD):
        for endpoint in text.removeprefix(ETCD).split(","):
            parse_address(endpoint, where, port_min=1)
    elif text not in (MEMORY, SQLITE, KUBERNETES) and not text.startswith(f"{KUBERNETES}:"):
        raise SettingsError(
            f"{where}: {text!r} is not {MEMORY}, {SQLITE}, {ETCD}HOST:PORT[,HOST:PORT...], {KUBERNETES} or "
            f"{KUBERNETES}:KUBECONFIG"
        )


def is_shared(text: str) -> bool:
    """Tells whether several SCs may use this store, so that one of them has to be elected."""
    return text not in (MEMORY, SQLITE)


async def open_store(text: str, directory: str, seams: Seams) -> KeyValueStore:
    """Opens `memory`, `sqlite` (a file in the directory, whose lock the caller holds), `etcd://HOST:PORT,HOST:PORT`, or
    `kubernetes` (in a pod) or `kubernetes:KUBECONFIG`.

    Raises StoreCorrupt or StoreUnavailable for SQLite, SettingsError for a wrong kubeconfig file. A server is not
    contacted yet.
    """
    check_store_name(text, "store")
    if text == MEMORY:
        from .memory import MemoryStore

        return MemoryStore()
    if text == SQLITE:
        from .sqlite import open_sqlite

        return await open_sqlite(f"{directory}/{SQLITE_FILE}")
    if text.startswith(KUBERNETES):
        return _kubernetes_store(text.removeprefix(KUBERNETES).removeprefix(":"), seams)
    from tailrace.controller.key_value.etcd.etcd_store import EtcdStore

    endpoints = [parse_address(endpoint, "store", port_min=1) for endpoint in text.removeprefix(ETCD).split(",")]
    return EtcdStore(seams.network, seams.chance, endpoints)


def _kubernetes_store(kubeconfig: str, seams: Seams) -> KeyValueStore:
    from .kubernetes.kubernetes_access import kubeconfig_access, pod_access
    from .kubernetes.kubernetes_api import KubernetesApi
    from .kubernetes.kubernetes_store import KubernetesStore

    access = kubeconfig_access(seams.files, kubeconfig) if kubeconfig else pod_access(seams.files)
    return KubernetesStore(KubernetesApi(seams.network, seams.files, access), seams.chance)
