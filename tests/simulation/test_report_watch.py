"""The watch finds the reports of leaders among all frames, however their bytes are split."""

from random import Random
from uuid import UUID

from simulation.faulty_network import Internet
from simulation.report_watch import ReportWatch

from tailrace.protocol.codec.headers import RequestHeader, encode_request
from tailrace.protocol.internal.report_live_replicas import Member, ReportedPartition, ReportLiveReplicasRequest
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.network import Address
from tailrace.server.private_link import REQUEST, RESPONSE

REPORTED = ReportedPartition(UUID(int=7), 2, epoch=3, version=4, members=[Member(1, ""), Member(2, "b")])


def _frame(kind: int, body: bytes) -> bytes:
    return (len(body) + 1).to_bytes(4, "big") + bytes([kind]) + body


async def test_it_finds_each_report(virtual_clock: object) -> None:
    internet = Internet(Random(0))
    listener = await internet.process_on("sc-1").listen(Address("sc-1", 9004))
    connection = await internet.process_on("spu-1").connect(listener.address)
    accepted = await listener.accept()
    found: list[ReportedPartition] = []
    watch = ReportWatch(found.append)
    header = RequestHeader(InternalApiKey.REPORT_LIVE_REPLICAS, 0, 1)
    sized = b"".join(map(bytes, encode_request(header, ReportLiveReplicasRequest([REPORTED]), SC_PRIVATE_APIS)))
    report = _frame(REQUEST, sized[4:])
    other = _frame(RESPONSE, sized[4:])
    for cut in range(1, 20):
        watch.on_sent(connection, other + report[:cut])
        watch.on_sent(connection, report[cut:])
        watch.on_sent(accepted, report)  # the SC sends no reports
    assert found == [REPORTED] * 19
