import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.trigger.config.trigger_config import Acknowledgement, Retry, TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Settled, Shard
from tailrace.trigger.worker.frames import (
    SIZE_BYTES,
    CannotStart,
    Done,
    FrameInbox,
    FromWorker,
    Ready,
    SettledLater,
    Start,
    Stop,
    ToWorker,
    Work,
    decode_to_worker,
    encode,
    size_in,
    work_of,
)

CONFIG = TriggerConfig(
    name="billing",
    topic="orders",
    group="billing",
    retry=Retry(backoff=(0.5, 2.0)),
    acknowledgement=Acknowledgement.EXPLICIT,
    environment={"A": "b"},
)
OUTCOME = Outcome(
    next_offset=7,
    events=3,
    outputs=(Output("out", b"k", None, (("h", b"v"), ("n", None)), 1, 2),),
    failure=Failure(FailureKind.RAISED, 7, 8, "ValueError", failed_offsets=(7,)),
    handler_seconds=0.5,
    opened=(5,),
)
FROM_WORKER: list[FromWorker] = [
    Ready(),
    CannotStart("billing.py: line 1: no"),
    Done(3, OUTCOME),
    Done(4, None),
    SettledLater((Settled(Shard("orders", 2), 5, True),)),
]


def to_worker(message: ToWorker) -> ToWorker:
    data = encode(message)
    assert size_in(data[:SIZE_BYTES]) == len(data) - SIZE_BYTES
    return decode_to_worker(data[SIZE_BYTES:])


def test_messages_to_a_worker_arrive_as_they_were_sent() -> None:
    start = Start(FunctionSource("/f.py", "bill", "text"), CONFIG, 2, "info", True)
    assert to_worker(start) == start
    assert to_worker(Stop()) == Stop()


@pytest.mark.parametrize("seconds", [0.05, float("inf")])
@pytest.mark.parametrize("offsets", [None, (4, 6)])
def test_a_chunk_arrives_with_its_batches(seconds: float, offsets: tuple[int, ...] | None) -> None:
    chunk = Chunk(Shard("orders", 3), [b"one", b"three"], 4, 9, 2, offsets, 10, seconds)
    work = to_worker(work_of(12, chunk))
    assert isinstance(work, Work)
    assert (work.number, work.sizes) == (12, (3, 5))
    assert work.with_batches([b"one", b"three"]) == chunk


def test_bytes_that_are_no_message_are_refused() -> None:
    for data in (b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\x07"):
        with pytest.raises(msgspec.DecodeError):
            FrameInbox().add(data)


@given(st.lists(st.integers(1, 300)))
def test_messages_of_a_worker_are_cut_out_of_any_pieces(sizes: list[int]) -> None:
    stream = b"".join(map(encode, FROM_WORKER))
    inbox = FrameInbox()
    messages: list[FromWorker] = []
    for size in sizes:
        messages += inbox.add(stream[:size])
        stream = stream[size:]
    messages += inbox.add(stream)
    assert messages == FROM_WORKER
