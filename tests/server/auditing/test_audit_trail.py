"""The audit trail of a server."""

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from audit_logs import disk, opened, verified
from msgspec import Struct
from simulation.files import SimulatedFiles
from spus import SteadyClock

from tailrace.security.identity.principal import Principal
from tailrace.server.auditing import audit_trail
from tailrace.server.auditing.audit_trail import LINGER_SECONDS, REPEATED_MS, AuditTrail
from tailrace.server.request_context import ClientIdentity

ALICE = ClientIdentity("192.0.2.1:5", principal=Principal("User", "alice"), host="192.0.2.1", mechanism="PLAIN")


class _World(Struct):
    trail: AuditTrail
    files: SimulatedFiles
    clock: SteadyClock
    failures: list[None]

    async def rest(self) -> None:
        """Lets the trail write."""
        await trio.sleep(LINGER_SECONDS * 2)


@asynccontextmanager
async def _world() -> AsyncIterator[_World]:
    files, clock, failures = disk(), SteadyClock(), list[None]()
    trail = AuditTrail(await opened(files), clock, structlog.get_logger(), lambda: failures.append(None))
    async with trio.open_nursery() as nursery:
        await nursery.start(trail.run)
        yield _World(trail, files, clock, failures)
        nursery.cancel_scope.cancel()


def _lines(files: SimulatedFiles) -> list[str]:
    summary, seen = verified(files)
    assert summary.faults == []
    return seen


async def test_events_are_written_together_and_the_rest_at_the_end(autojump_clock: object) -> None:
    async with _world() as world:
        for name in "ab":
            world.trail.changed(ALICE, "app", "CreateTopics", f"TOPIC:{name}")
        await world.rest()
        assert _lines(world.files) == ["begin", "TOPIC:a", "TOPIC:b"]
        world.trail.changed(ALICE, "app", "CreateTopics", "TOPIC:c", "POLICY_VIOLATION")
    assert _lines(world.files) == ["begin", "TOPIC:a", "TOPIC:b", "TOPIC:c"]
    text = world.files.read(next(path for path in world.files.paths() if path.endswith(".log"))).decode()
    assert '"outcome":"failed","principal":"User:alice","address":"192.0.2.1","client_id":"app"' in text
    assert (world.trail.counts.audited_events, world.trail.counts.lost_audit_events) == (3, 0)


async def test_equal_refusals_are_one_line_with_a_count(autojump_clock: object) -> None:
    async with _world() as world:
        for _ in range(5):
            world.trail.denied(ALICE, "app", "WRITE", "TOPIC:a", "no rule allows it")
            world.trail.not_authenticated(ALICE, "PLAIN", "bob", "the password is wrong")
        world.trail.allowed(ALICE, "app", "WRITE", "TOPIC:b")
        world.trail.authenticated(ALICE)
        await world.rest()
        assert sorted(_lines(world.files)) == ["TOPIC:a", "TOPIC:b", "USER:bob", "authentication", "begin"]
        world.clock.time_ms += REPEATED_MS
        await trio.sleep(REPEATED_MS / 1000 + 1)
        text = world.files.read(next(path for path in world.files.paths() if path.endswith(".log"))).decode()
        assert text.count('"count":4') == 2


async def test_a_client_that_tries_many_names_fills_neither_the_log_nor_the_queue(autojump_clock: object) -> None:
    async with _world() as world:
        for number in range(20_000):
            world.trail.denied(ALICE, "app", "WRITE", f"TOPIC:{number}")
            world.trail.not_authenticated(ALICE, "PLAIN", f"user{number}", "there is no such user")
        world.trail.denied(ALICE, "app", "READ", "TOPIC:a")
        await world.rest()
        assert world.trail.counts.lost_audit_events == 0
        assert len(_lines(world.files)) == 1 + audit_trail.RESOURCES_PER_PRINCIPAL_MAX + 16 + 1


async def test_long_texts_of_clients_are_not_kept_until_they_are_written(autojump_clock: object) -> None:
    """A client that has not authenticated may send a name of half a megabyte, from many addresses."""
    async with _world() as world:
        tracemalloc.start()
        for number in range(200):
            host, long = f"192.0.2.{number}", f"{number}{'x' * 100_000}"
            client = ClientIdentity(f"{host}:5", host=host)
            world.trail.not_authenticated(client, long, long, "there is no such user")
            world.trail.denied(client, long, "WRITE", f"TOPIC:{long}", long)
        kept_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert kept_bytes < 5_000_000


async def test_events_that_do_not_fit_into_the_queue_are_counted(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "QUEUED_MAX", 3)
    async with _world() as world:
        for name in "abcde":
            world.trail.changed(ALICE, None, "CreateTopics", name)
        await world.rest()
        assert _lines(world.files) == ["begin", "a", "b", "c", "lost"]
        assert (world.trail.counts.audited_events, world.trail.counts.lost_audit_events) == (3, 2)


async def test_a_full_disk_is_logged_and_counted_and_writing_goes_on(autojump_clock: object) -> None:
    async with _world() as world:
        world.trail.changed(ALICE, None, "CreateTopics", "a")
        await world.rest()
        world.files.room_bytes = 0
        with structlog.testing.capture_logs() as logged:
            world.trail.changed(ALICE, None, "CreateTopics", "b")
            await world.rest()
        assert [each["event"] for each in logged] == ["audit_write_failed"]
        assert len(world.failures) == 1
        world.files.room_bytes = None
        world.trail.changed(ALICE, None, "CreateTopics", "c")
        await world.rest()
        assert _lines(world.files) == ["begin", "a", "c", "lost"]
        assert (world.trail.counts.audited_events, world.trail.counts.lost_audit_events) == (2, 1)


async def test_a_client_is_known_by_its_certificate(autojump_clock: object) -> None:
    async with _world() as world:
        world.trail.not_encrypted("192.0.2.9:5", "192.0.2.9")
        client = ClientIdentity(
            "192.0.2.1:5", principal=Principal("User", "CN=alice"), host="192.0.2.1", protocol="SSL"
        )
        world.trail.authenticated(client)
    text = world.files.read(next(path for path in world.files.paths() if path.endswith(".log"))).decode()
    assert '"outcome":"failed","address":"192.0.2.9","mechanism":"SSL","why":"the TLS handshake failed"' in text
    assert '"outcome":"allowed","principal":"User:CN=alice","address":"192.0.2.1","mechanism":"SSL"' in text
