import pytest

from tailrace.broker.peers.peer_frames import frame, read_body, read_key
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.headers import RequestHeader, encode_request
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.internal.append_message import AppendMessage
from tailrace.protocol.internal.introduce_message import IntroduceMessage
from tailrace.protocol.internal.ping_message import PingMessage
from tailrace.protocol.internal.register_spu import RegisterSpuRequest
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, InternalApiKey
from tailrace.protocol.messages.metadata import MetadataRequest


def _joined(parts: list[object]) -> bytes:
    return b"".join(parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        PingMessage(),
        IntroduceMessage("cluster", 3, "store", "process"),
        AppendMessage(partition=4, epoch=5, live_replicas=[1, 2], records=b"batches"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_frame_is_read_as_it_was_written(message: IntroduceMessage) -> None:
    written = memoryview(_joined(frame(message)))  # type: ignore[arg-type]
    assert int.from_bytes(written[:4], "big") == len(written) - 4
    assert read_key(written[4:]) == message.API_KEY
    assert read_body(type(message), written[4:]) == message


def test_records_stay_a_part_of_their_own() -> None:
    records = bytearray(1000)
    assert any(part is records for part in frame(AppendMessage(records=records)))


def test_a_kafka_request_is_named() -> None:
    request = _joined(encode_request(RequestHeader(ApiKey.METADATA, 9, 1), MetadataRequest(topics=None)))  # type: ignore[arg-type]
    with pytest.raises(RemoteProtocolError, match="METADATA version 9 belongs on a public one"):
        read_key(memoryview(request)[4:])


def test_a_message_for_the_controller_is_named() -> None:
    request = encode_request(RequestHeader(InternalApiKey.REGISTER_SPU, 0, 1), RegisterSpuRequest(), SC_PRIVATE_APIS)
    frame_of_a_private_link = b"\x00" + _joined(request)[4:]  # type: ignore[arg-type]
    with pytest.raises(RemoteProtocolError, match="REGISTER_SPU belongs on the private port of a Streaming Controller"):
        read_key(memoryview(frame_of_a_private_link))


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (b"", "ends within its header"),
        (b"\x27\x74", "ends within its header"),
        (b"\x27\x74\x00\x01", "Introduce version 1 is not supported"),
        (b"\xff\xff\xff\xff", "kind -1"),
        (b"\x7f\xff\x00\x00", "kind 32767"),
    ],
)
def test_foreign_frames_are_refused(received: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        read_key(memoryview(received))


def test_a_truncated_body_is_refused() -> None:
    written = _joined(frame(IntroduceMessage("cluster", 3, "store", "process")))  # type: ignore[arg-type]
    for end in range(8, len(written)):
        with pytest.raises(RemoteProtocolError):
            read_body(IntroduceMessage, memoryview(written)[4:end])
