"""Opening a store by the name in the settings."""

import os
from pathlib import Path

import pytest

from tailrace.controller.key_value.etcd.etcd_store import EtcdStore
from tailrace.controller.key_value.interface import NO_VERSION, Put
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.key_value.opening import check_store_name, open_store
from tailrace.controller.key_value.sqlite import SqliteStore
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import SettingsError


@pytest.fixture
def seams() -> Seams:
    return real_seams(send_buffer_bytes=0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("memory", MemoryStore),
        ("sqlite", SqliteStore),
        ("etcd://127.0.0.1:2379", EtcdStore),
        ("etcd://one:2379,[::1]:2380", EtcdStore),
        ("etcds://one:2379,two:2379", EtcdStore),
    ],
)
async def test_each_store_has_a_name(tmp_path: Path, seams: Seams, name: str, kind: type) -> None:
    check_store_name(name, "--store")
    store = await open_store(name, str(tmp_path), seams)
    assert isinstance(store, kind)
    await store.close()


@pytest.mark.parametrize(
    "name", ["", "SQLite", "consul", "etcd", "etcd://", "etcd://host", "etcd://a:1,", "etcd://a:99999", "etcd://a:0"]
)
def test_another_name_is_refused_with_the_place_it_came_from(name: str) -> None:
    with pytest.raises(SettingsError, match="--store: "):
        check_store_name(name, "--store")


async def test_sqlite_lies_in_the_directory(tmp_path: Path, seams: Seams) -> None:
    store = await open_store("sqlite", str(tmp_path), seams)
    await store.write([Put("a", b"1", NO_VERSION)])
    await store.close()
    assert os.listdir(tmp_path) == ["store.sqlite"]
    store = await open_store("sqlite", str(tmp_path), seams)
    assert await store.get("a") is not None
    await store.close()
