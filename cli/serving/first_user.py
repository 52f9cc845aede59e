"""The first user of a secured cluster, who may do everything: creates it in the store before the servers start."""

from tailrace.controller.key_value.interface import NO_VERSION, KeyValueStore, Put
from tailrace.controller.objects.objects import SecurityEntry
from tailrace.controller.state.object_codec import encode, key_of
from tailrace.runtime.chance import Chance
from tailrace.security.records.user_record import UserRecord
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS, credential_of_password

from .secured_cluster import FIRST_USER, SecuredCluster

SALT_BYTES = 20


async def ensure_first_user(cluster: SecuredCluster, store: KeyValueStore, chance: Chance) -> str | None:
    """Returns the password of the first user if it is new; None if there is one already.

    The user gets a new password if the file with the old one was removed, because the owner of the data directory may
    do everything anyway. Raises OSError, StoreUnavailable and StoreCorrupt.
    """
    key = key_of(SecurityEntry(UserRecord(FIRST_USER, ())))
    stored = await store.get(key)
    if stored is not None and cluster.has_client_config:
        return None
    # A start that ended early may have saved the password, and not have stored the user.
    password = cluster.saved_password() or cluster.new_password()
    credentials = tuple(
        credential_of_password(mechanism, password, chance.secret(SALT_BYTES)) for mechanism in SCRAM_MECHANISMS
    )
    entry = SecurityEntry(UserRecord(FIRST_USER, credentials))
    await store.write([Put(key, encode(entry), NO_VERSION if stored is None else stored.version)])
    return password
