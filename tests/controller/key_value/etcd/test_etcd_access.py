"""The SC reaches an etcd that demands TLS, a client certificate and a login, and shows no secret."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from certificates import authority_pem, client_certificate, client_context, nameless_certificate, server_certificate
from etcd_server import Etcd
from key_value_worlds import address_of

from tailrace.controller.key_value.etcd.etcd_access import EtcdAccess, EtcdNetwork, read_access
from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Entry,
    EntryPut,
    KeyValueStore,
    Put,
    StoreRefused,
    StoreUnavailable,
)
from tailrace.controller.key_value.opening import open_store
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, TcpNetwork
from tailrace.runtime.seams import real_seams
from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.secret import Secret

LOCAL, REMOTE = Address("127.0.0.1", 2379), Address("etcd.example", 2379)
PASSWORD = "opensesame-17"
LOGIN = f"username=tailrace\npassword={PASSWORD}\n"


def access_of(text: str, directory: Path, *, endpoint: Address = REMOTE, is_encrypted: bool = True) -> EtcdAccess:
    path = directory / "etcd.properties"
    path.write_text(text)
    return read_access([endpoint], str(path), RealFiles(), is_encrypted=is_encrypted)


def pem_settings(directory: Path, *, with_certificate: bool = True) -> str:
    """Returns the settings of TLS, whose files are written into the directory."""
    (directory / "ca.pem").write_bytes(authority_pem())
    (directory / "client.pem").write_bytes(nameless_certificate())
    trust = f"ssl.truststore.location={directory}/ca.pem\n"
    return trust + (f"ssl.keystore.location={directory}/client.pem\n" if with_certificate else "")


def test_the_file_names_everything_and_hides_the_password(tmp_path: Path) -> None:
    access = access_of(LOGIN + pem_settings(tmp_path), tmp_path)
    assert access == EtcdAccess(
        [REMOTE],
        True,
        f"{tmp_path}/ca.pem",
        f"{tmp_path}/client.pem",
        user="tailrace",
        password=Secret(PASSWORD),
    )
    assert PASSWORD not in repr(access)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user=x", r"'user' is not one of ssl\.truststore\.location, "),
        ("username=x", "username and password need each other"),
        ("password=y", "username and password need each other"),
        ("ssl.key.password=y", r"ssl\.key\.password has no effect without ssl\.keystore\.location"),
        ("ssl.truststore.location=/none.pem", r"/none\.pem cannot be read: No such file or directory"),
        (f"username=tailrace\npassword:{PASSWORD}", "line 2 is not NAME=VALUE"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=rf"^--store-config {tmp_path}/etcd\.properties: .*{message}") as caught:
        access_of(text, tmp_path)
    assert PASSWORD not in str(caught.value)


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text("nonsense")
    with pytest.raises(SettingsError, match=r"^--store-config "):
        access_of(f"ssl.keystore.location={tmp_path}/client.pem", tmp_path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xfe\xed\xfe\xed"])
def test_a_truststore_without_certificates_is_refused(tmp_path: Path, content: bytes) -> None:
    """It never means that all authorities of the system are trusted."""
    (tmp_path / "ca.pem").write_bytes(content)
    message = rf"^--store-config .*: {tmp_path}/ca\.pem has no certificates of authorities in PEM: "
    with pytest.raises(SettingsError, match=message):
        access_of(f"ssl.truststore.location={tmp_path}/ca.pem", tmp_path)


async def test_a_truststore_is_read_again_whatever_it_becomes(tmp_path: Path) -> None:
    access = access_of(pem_settings(tmp_path), tmp_path)
    (tmp_path / "ca.pem").write_bytes(b"# Beh\xf6rde\n" + authority_pem())
    assert access.tls(RealFiles()).cert_store_stats()["x509_ca"] == 1
    (tmp_path / "ca.pem").write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(OSError, match=r"/ca\.pem has no certificates of authorities in PEM"):
        await EtcdNetwork(TcpNetwork(), RealFiles(), access).connect(LOCAL)


def test_without_tls_certificates_have_no_effect_and_passwords_stay_on_the_machine(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ssl\.truststore\.location has no effect without TLS: write etcds://"):
        access_of(pem_settings(tmp_path), tmp_path, is_encrypted=False)
    with pytest.raises(SettingsError, match="everybody between the SC and etcd could read it") as caught:
        access_of(LOGIN, tmp_path, is_encrypted=False)
    assert PASSWORD not in str(caught.value)
    assert access_of(LOGIN, tmp_path, endpoint=LOCAL, is_encrypted=False).user == "tailrace"


# a real etcd


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    (made / "server.pem").write_bytes(server_certificate())
    (made / "ca.pem").write_bytes(authority_pem())
    return made


@pytest.fixture(scope="module")
def server(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Runs an etcd that demands certificates and logins. The user `tailrace` may use the keys of the cluster only."""
    server = Etcd(tmp_path_factory.mktemp("etcd"), directory)
    server.start()
    context = client_context(client_certificate("root"))
    for path, body in (
        ("user/add", {"name": "root", "password": "root"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("user/add", {"name": "tailrace", "password": PASSWORD}),
        ("user/add", {"name": "nobody", "password": PASSWORD}),
        ("role/add", {"name": "cluster"}),
        ("role/grant", {"name": "cluster", "perm": _permission("/tailrace/", "/tailrace0")}),
        ("user/grant", {"user": "tailrace", "role": "cluster"}),
        ("enable", {}),
    ):
        server.call(f"/v3/auth/{path}", body, context)
    yield server
    server.kill()


def _permission(first: str, end: str) -> dict[str, object]:
    from base64 import b64encode

    return {
        "permType": "READWRITE",
        "key": b64encode(first.encode()).decode(),
        "range_end": b64encode(end.encode()).decode(),
    }


async def opened(server: Etcd, directory: Path, text: str) -> KeyValueStore:
    path = directory / "etcd.properties"
    path.write_text(text)
    return await open_store(server.url, str(directory), real_seams(send_buffer_bytes=0), str(path))


@pytest.fixture
async def store(server: Etcd, tmp_path: Path) -> AsyncIterator[KeyValueStore]:
    store = await opened(server, tmp_path, LOGIN + pem_settings(tmp_path))
    yield store
    await store.close()


@pytest.mark.etcd
async def test_a_closed_etcd_is_a_whole_store(store: KeyValueStore) -> None:
    taken = await store.take("leader", b"sc", 60)
    assert taken is not None
    await store.renew(taken)
    (version,) = await store.write([Put("whole/a", b"1", NO_VERSION)], taken)
    assert version is not None
    listing = await store.list("whole/")
    assert listing.entries == (Entry("whole/a", b"1", version),)
    async with store.watch("whole/", listing.revision) as events:
        await store.write([Put("whole/b", b"2", NO_VERSION)])
        event = await anext(events)
    assert isinstance(event, EntryPut)
    assert event.entry.key == "whole/b"
    await store.give_up(taken)


@pytest.mark.etcd
async def test_calls_and_watches_renew_their_tokens(server: Etcd, store: KeyValueStore, tmp_path: Path) -> None:
    """A new password ends all tokens of a user, and a restart ends all watches.

    The watch and the calls have stores of their own, and so tokens.
    """
    caller = await opened(server, tmp_path, LOGIN + pem_settings(tmp_path))
    listing = await caller.list("renewed/")
    async with store.watch("renewed/", listing.revision) as events, trio.open_nursery() as nursery:
        received: list[str] = []

        async def receive() -> None:
            event = await anext(events)
            assert isinstance(event, EntryPut)
            received.append(event.entry.key)

        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        await trio.to_thread.run_sync(_end_tokens, server)
        await trio.to_thread.run_sync(server.stop)
        await trio.to_thread.run_sync(server.start)
        with trio.fail_after(30):
            await put_when_it_answers(caller, "renewed/a")
    assert received == ["renewed/a"]
    await caller.close()


def _end_tokens(server: Etcd) -> None:
    context = client_context(nameless_certificate())
    login = server.call("/v3/auth/authenticate", {"name": "root", "password": "root"}, context)
    assert isinstance(login, dict)
    server.call("/v3/auth/user/changepw", {"name": "tailrace", "password": PASSWORD}, context, login["token"])


async def put_when_it_answers(store: KeyValueStore, key: str) -> None:
    while True:
        try:
            await store.write([Put(key, b"", NO_VERSION)])
            return
        except StoreUnavailable as error:
            assert not isinstance(error, StoreRefused), error
            await trio.sleep(0.05)


@pytest.mark.etcd
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("username=tailrace\npassword=wrong\n", "refuses the user 'tailrace': the name or the password in the file of"),
        (f"username=nobody\npassword={PASSWORD}\n", "does not let the user 'nobody' read and write the keys"),
        ("", "demands a login: give username and password in a file with --store-config"),
    ],
)
async def test_a_refusal_says_what_to_do(server: Etcd, tmp_path: Path, text: str, message: str) -> None:
    store = await opened(server, tmp_path, text + pem_settings(tmp_path))
    try:
        with pytest.raises(StoreRefused, match=rf"^etcd at {server.endpoint} {message}"):
            await store.get("a")
    finally:
        await store.close()


@pytest.mark.etcd
async def test_a_connection_that_is_not_trusted_says_why(server: Etcd, tmp_path: Path) -> None:
    trusting_all = await opened(server, tmp_path, "")
    with pytest.raises(StoreUnavailable, match=rf"{server.endpoint}: its certificate is not accepted: "):
        await trusting_all.get("a")
    without = await opened(server, tmp_path, LOGIN + pem_settings(tmp_path, with_certificate=False))
    with pytest.raises(StoreUnavailable, match=r"it re(quires|fuses) .*client certificate"):
        await without.get("a")
    named = await opened(server, tmp_path, LOGIN + pem_settings(tmp_path))
    (tmp_path / "client.pem").write_bytes(client_certificate("sc"))
    with pytest.raises(StoreUnavailable, match="takes only client certificates without a common name"):
        await named.get("a")
    for each in (trusting_all, without, named):
        await each.close()


@pytest.mark.etcd
async def test_certificates_are_read_for_each_connection(server: Etcd, tmp_path: Path) -> None:
    access = access_of(pem_settings(tmp_path), tmp_path, endpoint=address_of(server))
    network = EtcdNetwork(TcpNetwork(), RealFiles(), access)
    (await network.connect(address_of(server))).close()
    (tmp_path / "client.pem").unlink()
    with pytest.raises(OSError, match=r"/client\.pem cannot be read: No such file"):
        await network.connect(address_of(server))
    (tmp_path / "client.pem").write_bytes(client_certificate("renewed"))
    (await network.connect(address_of(server))).close()


@pytest.mark.etcd
def test_an_sc_serves_from_a_closed_etcd_and_shows_no_secret(server: Etcd, tmp_path: Path) -> None:
    config = tmp_path / "etcd.properties"
    config.write_text(LOGIN + pem_settings(tmp_path))
    command = [sys.executable, "-m", "tailrace", "serve", "sc", "--data", f"{tmp_path}/sc", "--metrics", "off"]
    command += ["--public", "127.0.0.1:0", "--private", "127.0.0.1:0", "--store", server.url, "--log-level", "debug"]
    command += ["--store-config", str(config)]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        ready = process.stdout.readline().decode()
        process.terminate()
    shown = (tmp_path / "log").read_text()
    assert ready.startswith("ready sc public="), shown
    variables = {"TAILRACE_STORE": server.url, "TAILRACE_STORE_CONFIG": str(config)}
    checking = [sys.executable, "-m", "tailrace", "config", "check", "--server", "sc", "--all"]
    checked = subprocess.run(checking, env=os.environ | variables, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, "TAILRACE_STORE_CONFIG" in checked.stdout) == (0, True), checked.stderr
    assert PASSWORD not in ready + shown + checked.stdout + checked.stderr
