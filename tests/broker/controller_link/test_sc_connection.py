from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import IntEnum
from itertools import count
from typing import Any

import pytest
import structlog
import trio
from msgspec import Struct, field
from msgspec.structs import replace
from scripted_sc import HEARTBEAT_MS, LEASE_MS, SC_ADDRESS, accepted, scripted_sc
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork
from structlog.testing import capture_logs

from tailrace.broker.controller_link.cluster_identity import ClusterIdentity
from tailrace.broker.controller_link.lease import Lease
from tailrace.broker.controller_link.sc_connection import (
    LATE_SECONDS_MAX,
    Ask,
    RefusedForGoodError,
    Registration,
    ScConnection,
    ScUnreachableError,
)
from tailrace.cluster.specs import Endpoint
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, ApplyMetadataResponse
from tailrace.protocol.internal.leave import LeaveRequest
from tailrace.protocol.internal.register_spu import RegisteredListener, RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest, RenewLeaseResponse
from tailrace.protocol.internal.report_shelves import ReportedPartition, ReportShelvesRequest, ReportShelvesResponse
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address

A_NEWER_CODE = 9999
STANDBY = Address("sc-2", 9004)
REGISTRATION = Registration(
    SpuId(7), "first", "store", True, (Endpoint("PUBLIC", "0.0.0.0", 9005),), Endpoint("PRIVATE", "spu-7", 9006)
)


class _Receiver(Struct):
    events: list[object] = field(default_factory=list)
    reported: tuple[Endpoint, ...] = ()

    def on_connecting(self, reported: tuple[Endpoint, ...]) -> None:
        self.reported = reported
        self.events.append("connecting")

    async def handle(self, api_key: IntEnum, message: Any) -> object:
        await trio.lowlevel.checkpoint()
        self.events.append(message)
        return ApplyMetadataResponse()

    def heartbeat(self) -> RenewLeaseRequest:
        return RenewLeaseRequest(used_bytes=5, size_bytes=8)

    async def report(self, ask: Ask) -> None:
        self.events.append("reports")
        await trio.sleep_forever()

    def on_end(self) -> None:
        self.events.append("end")


class _Spu(Struct):
    connection: ScConnection
    receiver: _Receiver
    lease: Lease


@asynccontextmanager
async def _running(
    network: MemoryNetwork,
    addresses: Sequence[Address] = (SC_ADDRESS,),
    registration: Registration = REGISTRATION,
    files: SimulatedFiles | None = None,
) -> AsyncIterator[_Spu]:
    receiver = _Receiver()
    files = files or SimulatedFiles()
    files.make_directories("/data")
    identity = ClusterIdentity(files, "/data", SpuId(1))
    lease = Lease()
    connection = ScConnection(
        registration, addresses, network, RandomChance(1), receiver, identity, lease, structlog.get_logger()
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        yield _Spu(connection, receiver, lease)
        nursery.cancel_scope.cancel()


async def test_it_registers_with_the_address_that_the_controller_sees(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        (heard,) = sc.heard_of(RegisterSpuRequest)
        seen = sc.connections[0].remote.host
    assert spu.receiver.reported == (Endpoint("PUBLIC", seen, 9005, on_all_addresses=True),)
    assert (heard.spu_id, heard.incarnation, heard.store_incarnation) == (7, "first", "store")
    assert heard.stopped_cleanly
    assert heard.listeners == [RegisteredListener("PUBLIC", seen, 9005, on_all_addresses=True)]
    assert (heard.private_host, heard.private_port) == ("spu-7", 9006)


async def test_the_protocols_of_all_listeners_are_told(autojump_clock: object) -> None:
    network = MemoryNetwork()
    registration = replace(REGISTRATION, protocols={"PUBLIC": "SASL_SSL", "PRIVATE": "SSL"})
    async with scripted_sc(network) as sc, _running(network, registration=registration):
        await sc.registered()
        (heard,) = sc.heard_of(RegisterSpuRequest)
    assert (heard.listeners[0].security_protocol, heard.private_security_protocol) == ("SASL_SSL", "SSL")


async def test_what_the_controller_asks_is_handed_on(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        message = ApplyMetadataRequest(version=5)
        assert await sc.ask(message) == ApplyMetadataResponse()
        await trio.testing.wait_all_tasks_blocked()
        assert spu.receiver.events[0] == "connecting"
        assert message in spu.receiver.events
        assert "reports" in spu.receiver.events
    assert spu.receiver.events[-1] == "end"


async def test_the_lease_is_renewed_as_often_as_told(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network):
        await sc.registered()
        await trio.sleep(10 * HEARTBEAT_MS / 1000 + 0.1)
        assert sc.heartbeats == 10


async def test_there_is_a_lease_from_the_first_renewal_until_one_is_missed(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        assert spu.lease.end < trio.current_time()
        await trio.sleep(HEARTBEAT_MS / 1000 + 0.1)
        renewed = spu.lease.end - LEASE_MS / 1000
        assert trio.current_time() - 0.2 < renewed < trio.current_time()
        sc.answers[InternalApiKey.RENEW_LEASE] = lambda message: None
        await trio.sleep(10 * LEASE_MS / 1000)
        assert spu.lease.end < trio.current_time()


async def test_there_is_no_lease_without_the_connection_on_which_it_was_renewed(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        await trio.sleep(HEARTBEAT_MS / 1000 + 0.1)
        assert spu.lease.end > trio.current_time()
        sc.drop()
        await trio.testing.wait_all_tasks_blocked()
        assert spu.lease.end < trio.current_time()


async def test_it_waits_for_a_controller_and_comes_back_when_the_connection_broke(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with _running(network) as spu:
        await trio.sleep(60)
        async with scripted_sc(network) as sc:
            with trio.fail_after(1.1):
                await sc.registered()
            await trio.sleep(5)
            sc.drop()
            with trio.fail_after(0.1):
                await sc.registered()
        incarnations = [each.incarnation for each in sc.heard_of(RegisterSpuRequest)]
    assert incarnations == ["first", "first"]
    assert spu.receiver.events.count("reports") == 2


async def test_a_standby_is_tried_when_the_first_is_unreachable(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network, STANDBY) as standby, _running(network, (SC_ADDRESS, STANDBY)):
        with trio.fail_after(0.1):
            await standby.registered()


async def test_requests_wait_for_a_controller(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with _running(network) as spu, trio.open_nursery() as nursery:
        answers = []

        async def ask() -> None:
            answers.append(await spu.connection.request(AllocateProducerIdsRequest()))

        nursery.start_soon(ask)
        await trio.sleep(5)
        assert answers == []
        async with scripted_sc(network):
            await trio.sleep(2)
            assert [answer.first_id for answer in answers] == [1000]


async def test_a_request_whose_connection_breaks_is_not_asked_again(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        sc.answers[InternalApiKey.ALLOCATE_PRODUCER_IDS] = lambda message: None
        await sc.registered()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                with pytest.raises(ScUnreachableError, match="broke"):
                    await spu.connection.request(AllocateProducerIdsRequest())

            await trio.testing.wait_all_tasks_blocked()
            sc.drop()
        await trio.sleep(2)
        assert len(sc.heard_of(AllocateProducerIdsRequest)) == 1


async def test_what_is_asked_as_the_connection_ends_is_asked_on_the_next_one(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        link = spu.connection._link
        assert link is not None
        link.close("it broke")  # the task of the connection notices it a moment later
        answer = await spu.connection.request(AllocateProducerIdsRequest())
        assert answer.first_id == 1000


async def test_no_request_waits_for_a_controller_after_the_end(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery, _running(MemoryNetwork()) as spu:

        @nursery.start_soon
        async def ask() -> None:
            with pytest.raises(ScUnreachableError, match="stopping"):
                await spu.connection.request(AllocateProducerIdsRequest())

        await trio.testing.wait_all_tasks_blocked()


async def test_a_clean_stop_gives_the_lease_back(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        await spu.connection.leave()
        assert len(sc.heard_of(LeaveRequest)) == 1


async def test_an_spu_that_gives_its_lease_back_has_none_despite_renewals(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        sc.answers[InternalApiKey.LEAVE] = lambda message: None
        await sc.registered()
        await trio.sleep(HEARTBEAT_MS / 1000 + 0.1)
        heartbeats = sc.heartbeats
        await spu.connection.leave()
        assert sc.heartbeats > heartbeats
        assert spu.lease.end < trio.current_time()


async def test_an_spu_that_has_left_does_not_register_again(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        await spu.connection.leave()
        sc.drop()
        await trio.sleep(60)
        assert len(sc.heard_of(RegisterSpuRequest)) == 1


async def test_a_controller_that_does_not_answer_holds_up_no_stop(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        sc.answers[InternalApiKey.LEAVE] = lambda message: None
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(1.1):
            await spu.connection.leave()


async def test_a_controller_that_is_away_holds_up_no_stop(autojump_clock: object) -> None:
    async with _running(MemoryNetwork()) as spu:
        with trio.fail_after(0.1):
            await spu.connection.leave()


async def test_a_controller_that_confirms_a_lease_late_is_waited_for_and_not_asked_to_begin_anew(
    autojump_clock: object,
) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        sc.renewal_seconds = LEASE_MS / 1000 + LATE_SECONDS_MAX - 0.5
        with capture_logs() as logged:
            await trio.sleep(HEARTBEAT_MS / 1000 + 0.1)
            sc.renewal_seconds, late_seconds = 0, sc.renewal_seconds
            await trio.sleep(late_seconds - 0.2)
            assert spu.lease.end < trio.current_time()
            await trio.sleep(0.2)
        assert [event["event"] for event in logged] == ["lease_not_confirmed"]
        assert spu.lease.end > trio.current_time()
        assert len(sc.heard_of(RegisterSpuRequest)) == 1


async def test_a_lease_that_is_not_confirmed_is_logged_and_another_connection_made(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network):
        await sc.registered()
        sc.answers[InternalApiKey.RENEW_LEASE] = lambda message: None
        with capture_logs() as logged:
            await trio.sleep((HEARTBEAT_MS + LEASE_MS) / 1000 + LATE_SECONDS_MAX + 0.1)
        assert "lease_not_confirmed" in [event["event"] for event in logged]
        del sc.answers[InternalApiKey.RENEW_LEASE]
        await trio.sleep(1)
        assert len(sc.heard_of(RegisterSpuRequest)) == 2


@pytest.mark.parametrize("code", [ErrorCode.BROKER_ID_NOT_REGISTERED, A_NEWER_CODE])
async def test_an_spu_that_the_controller_does_not_know_any_more_registers_again(
    autojump_clock: object, code: int
) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network):
        await sc.registered()
        sc.answers[InternalApiKey.RENEW_LEASE] = lambda message: RenewLeaseResponse(code)
        await trio.sleep(HEARTBEAT_MS / 1000 + 0.1)
        del sc.answers[InternalApiKey.RENEW_LEASE]
        await trio.sleep(1)
        assert len(sc.heard_of(RegisterSpuRequest)) == 2


def _refused(code: int, sentence: str | None) -> RegisterSpuResponse:
    return replace(accepted(), error_code=code, error_message=sentence)


@pytest.mark.parametrize(
    ("code", "sentence", "reason"),
    [
        (ErrorCode.BROKER_ID_NOT_REGISTERED, "SPU 7 is not registered", "SPU 7 is not registered"),
        (A_NEWER_CODE, None, "UNKNOWN_SERVER_ERROR"),
    ],
)
async def test_an_unregistered_spu_says_so_once_and_is_let_in_later(
    autojump_clock: object, code: int, sentence: str | None, reason: str
) -> None:
    network = MemoryNetwork()
    refusal = _refused(code, sentence)
    async with scripted_sc(network) as sc:
        sc.answers[InternalApiKey.REGISTER_SPU] = lambda message: refusal
        with capture_logs() as logged:
            async with _running(network):
                await trio.sleep(60)
                del sc.answers[InternalApiKey.REGISTER_SPU]
                with trio.fail_after(1.1):
                    await sc.registered()
    refusals = [event for event in logged if event["event"] == "registration_refused"]
    assert [event["reason"] for event in refusals] == [reason]


async def test_a_leftover_of_our_id_is_waited_for(autojump_clock: object) -> None:
    network = MemoryNetwork()
    refusal = _refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another process is SPU 7")
    async with scripted_sc(network) as sc, _running(network):
        sc.answers[InternalApiKey.REGISTER_SPU] = lambda message: refusal
        await trio.sleep(1.5 * LEASE_MS / 1000)
        del sc.answers[InternalApiKey.REGISTER_SPU]
        with trio.fail_after(1.1):
            await sc.registered()


async def test_a_duplicate_gives_up_with_the_reason_of_the_controller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    network = MemoryNetwork()
    sentences = (f"another process is SPU 7, as of {number}" for number in count())
    started = trio.current_time()
    async with scripted_sc(network) as sc:
        sc.answers[InternalApiKey.REGISTER_SPU] = lambda message: _refused(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION, next(sentences)
        )
        with capture_logs() as logged, pytest.raises(BaseExceptionGroup) as raised:
            async with _running(network):
                await trio.sleep_forever()
    assert len([event for event in logged if event["event"] == "registration_refused"]) == 1
    assert raised.group_contains(RefusedForGoodError, match="another process is SPU 7")
    assert 2 * LEASE_MS / 1000 < trio.current_time() - started < 2 * LEASE_MS / 1000 + 1.1


async def test_a_process_that_has_served_stays_although_its_id_is_taken(autojump_clock: object) -> None:
    network = MemoryNetwork()
    refusal = _refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another process is SPU 7")
    async with scripted_sc(network) as sc, _running(network):
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        sc.answers[InternalApiKey.REGISTER_SPU] = lambda message: refusal
        sc.drop()
        await trio.sleep(60)
        del sc.answers[InternalApiKey.REGISTER_SPU]
        with trio.fail_after(1.1):
            await sc.registered()


async def test_a_controller_that_accepts_connections_and_says_nothing_is_left(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as mute, scripted_sc(network, STANDBY) as standby:
        mute.answers[InternalApiKey.REGISTER_SPU] = lambda message: None
        async with _running(network, (SC_ADDRESS, STANDBY)):
            with trio.fail_after(6):
                await standby.registered()


@pytest.mark.parametrize("tenths", range(40, 80, 3))
async def test_the_successor_of_a_frozen_controller_is_found_within_a_lease(
    autojump_clock: object, tenths: int
) -> None:
    """Within a lease: after that the standby holds elections without the SPUs that have not registered."""
    network = MemoryNetwork()
    async with scripted_sc(network) as frozen, scripted_sc(network, STANDBY) as standby:
        standby.answers[InternalApiKey.REGISTER_SPU] = lambda message: RegisterSpuResponse(ErrorCode.NOT_CONTROLLER)
        async with _running(network, (SC_ADDRESS, STANDBY)):
            await frozen.registered()
            for api_key in (InternalApiKey.RENEW_LEASE, InternalApiKey.REGISTER_SPU):
                frozen.answers[api_key] = lambda message: None
            await trio.sleep(tenths / 10)
            standby.answers[InternalApiKey.REGISTER_SPU] = lambda message: accepted()
            with trio.fail_after(LEASE_MS / 1000):
                await standby.registered()


def _of_another_cluster(message: object) -> RegisterSpuResponse:
    return replace(accepted(), cluster_id="another")


async def test_a_controller_of_another_cluster_touches_nothing(autojump_clock: object) -> None:
    network, files = MemoryNetwork(), SimulatedFiles()
    async with scripted_sc(network) as sc:
        async with _running(network, files=files):
            await sc.registered()
            await trio.testing.wait_all_tasks_blocked()
        sc.answers[InternalApiKey.REGISTER_SPU] = _of_another_cluster
        with pytest.raises(BaseExceptionGroup) as raised:
            async with _running(network, files=files) as spu, trio.open_nursery() as nursery:
                nursery.start_soon(sc.ask, ApplyMetadataRequest(version=5))
                await trio.sleep_forever()
    assert raised.group_contains(RefusedForGoodError, match="the cluster id another, but .* belongs to 'cluster'")
    assert spu.receiver.events == ["connecting", "end"]


async def test_a_serving_spu_goes_on_although_its_controller_has_forgotten_the_cluster(autojump_clock: object) -> None:
    network = MemoryNetwork()
    async with scripted_sc(network) as sc, _running(network) as spu:
        await sc.registered()
        await trio.testing.wait_all_tasks_blocked()
        sc.answers[InternalApiKey.REGISTER_SPU] = _of_another_cluster
        sc.drop()
        await trio.sleep(60)
        assert spu.receiver.events.count("reports") == 1
        del sc.answers[InternalApiKey.REGISTER_SPU]
        await trio.sleep(2)
        assert spu.receiver.events.count("reports") == 2


async def test_what_is_known_of_shelves_is_reported(autojump_clock: object) -> None:
    network = MemoryNetwork()
    fenced = ReportShelvesResponse(ErrorCode.FENCED_LEADER_EPOCH)
    async with scripted_sc(network) as sc, _running(network) as spu:
        sc.answers[InternalApiKey.REPORT_SHELVES] = lambda message: fenced
        report = ReportShelvesRequest([ReportedPartition(partition=3)])
        assert await spu.connection.report_shelves(report) == fenced
        assert sc.heard_of(ReportShelvesRequest) == [report]


async def test_why_no_controller_can_be_reached_is_said_once_for_each_of_them(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with _running(MemoryNetwork(), [SC_ADDRESS, STANDBY]):
            await trio.sleep(60)
    assert [entry["address"] for entry in logs if entry["event"] == "sc_unreachable"] == [str(SC_ADDRESS), str(STANDBY)]
