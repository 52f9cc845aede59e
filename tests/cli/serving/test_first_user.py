"""The first user of a secured cluster: its password is shown once, and a lost one is replaced."""

from pathlib import Path

from secured_clusters import secured

from tailrace.cli.serving.first_user import ensure_first_user
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import SecurityEntry
from tailrace.controller.state.object_codec import decode
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.files import RealFiles
from tailrace.security.records.user_record import UserRecord
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS, fits

KEY = "security/user/admin"
CHANCE = RandomChance()


async def stored_user(store: MemoryStore) -> UserRecord:
    entry = await store.get(KEY)
    assert entry is not None
    found = decode(entry.key, entry.value, entry.version)
    assert isinstance(found, SecurityEntry) and isinstance(found.record, UserRecord)
    return found.record


async def has_password(store: MemoryStore, password: str | None) -> bool:
    user = await stored_user(store)
    assert {each.mechanism for each in user.credentials} == set(SCRAM_MECHANISMS)
    return password is not None and all(fits(each, password) for each in user.credentials)


async def test_the_first_start_makes_the_user_and_later_ones_keep_it(tmp_path: Path) -> None:
    cluster, store = secured(tmp_path), MemoryStore()
    password = await ensure_first_user(cluster, store, CHANCE)
    assert await has_password(store, password)
    assert password == cluster.saved_password()
    before = await stored_user(store)
    assert await ensure_first_user(cluster, store, CHANCE) is None
    assert await stored_user(store) == before


async def test_a_start_that_ended_before_the_user_was_stored_keeps_the_saved_password(tmp_path: Path) -> None:
    cluster, store = secured(tmp_path), MemoryStore()
    password = cluster.new_password()
    assert await ensure_first_user(cluster, store, CHANCE) == password
    assert await has_password(store, password)


async def test_a_user_whose_file_was_removed_gets_another_password(tmp_path: Path) -> None:
    cluster, store = secured(tmp_path), MemoryStore()
    lost = await ensure_first_user(cluster, store, CHANCE)
    RealFiles().remove(cluster.client_config)
    password = await ensure_first_user(cluster, store, CHANCE)
    assert password != lost
    assert await has_password(store, password)
