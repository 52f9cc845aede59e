"""Opens the key-value store that the settings name.

Each kind of store is imported only when it is used.
"""

from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import SettingsError, parse_address

from .interface import KeyValueStore

MEMORY = "memory"
SQLITE = "sqlite"
ETCD = "etcd://"
ETCD_WITH_TLS = "etcds://"
KUBERNETES = "kubernetes"
SQLITE_FILE = "store.sqlite"


def check_store_name(text: str, where: str) -> None:
    """Raises SettingsError if `open_store` does not know this kind of store."""
    if is_etcd(text):
        _endpoints(text, where)
    elif text not in (MEMORY, SQLITE, KUBERNETES) and not text.startswith(f"{KUBERNETES}:"):
        raise SettingsError(
            f"{where}: {text!r} is not {MEMORY}, {SQLITE}, {ETCD}HOST:PORT[,HOST:PORT...], "
            f"{ETCD_WITH_TLS}HOST:PORT[,HOST:PORT...], {KUBERNETES} or {KUBERNETES}:KUBECONFIG"
        )


def is_etcd(text: str) -> bool:
    """Tells whether the store is an etcd, which may have a file of `--store-config`."""
    return text.startswith((ETCD, ETCD_WITH_TLS))


def is_shared(text: str) -> bool:
    """Tells whether several SCs may use this store, so that one of them has to be elected."""
    return text not in (MEMORY, SQLITE)


async def open_store(text: str, directory: str, seams: Seams, config_path: str | None = None) -> KeyValueStore:
    """Opens `memory`, `sqlite` (a file in the directory, whose lock the caller holds), `etcd://HOST:PORT,HOST:PORT` or
    `etcds://…` with TLS, or `kubernetes` (in a pod) or `kubernetes:KUBECONFIG`.

    `config_path` is the file with what etcd demands. Raises StoreCorrupt or StoreUnavailable for SQLite, SettingsError
    for a wrong file. A server is not contacted yet.
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
    return _etcd_store(text, seams, config_path)


def _etcd_store(text: str, seams: Seams, config_path: str | None) -> KeyValueStore:
    from .etcd.etcd_access import EtcdNetwork, read_access
    from .etcd.etcd_login import EtcdLogin
    from .etcd.etcd_store import EtcdStore

    is_encrypted = text.startswith(ETCD_WITH_TLS)
    access = read_access(_endpoints(text, "store"), config_path, seams.files, is_encrypted=is_encrypted)
    network = EtcdNetwork(seams.network, seams.files, access) if is_encrypted else seams.network
    return EtcdStore(network, seams.chance, access.endpoints, login=EtcdLogin(access.user, access.password))


def _endpoints(text: str, where: str) -> list[Address]:
    members = text.removeprefix(ETCD).removeprefix(ETCD_WITH_TLS)
    if "@" in members:  # The message does not repeat what may contain a password.
        raise SettingsError(
            f"{where}: an address has no user and no password, because everybody can read it; write username and "
            "password into the file of --store-config"
        )
    return [parse_address(member, where, port_min=1) for member in members.split(",")]


def _kubernetes_store(kubeconfig: str, seams: Seams) -> KeyValueStore:
    from .kubernetes.kubernetes_access import kubeconfig_access, pod_access
    from .kubernetes.kubernetes_api import KubernetesApi
    from .kubernetes.kubernetes_store import KubernetesStore

    access = kubeconfig_access(seams.files, kubeconfig) if kubeconfig else pod_access(seams.files)
    return KubernetesStore(KubernetesApi(seams.network, seams.files, access), seams.chance)
