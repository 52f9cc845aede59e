"""Every request decoder with bytes that are almost right."""

import contextlib
import tracemalloc
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_samples import all_messages, all_requests, sample, versions_of

from tailrace.protocol.codec.compile import decode, decoder, encode, step_decoder
from tailrace.protocol.codec.decoder_source import ELEMENTS_MAX, STEP_ELEMENTS
from tailrace.protocol.codec.primitives import TAGS_MAX, uvarint
from tailrace.protocol.error_codes import RemoteProtocolError, TooManyElementsError
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MUTANTS_PER_VERSION = 60

TELLING = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff" * 5,
)
"""The bytes that mean something as a length, a count or a null."""


def mutant(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data) + 1)
    match random.randrange(5):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + random.choice(TELLING) + data[place:]
        case 2:
            telling = random.choice(TELLING)
            return data[:place] + telling + data[place + len(telling) :]
        case 3:
            return data[:place] + random.randbytes(random.randrange(1, 9)) + data[place + 1 :]
        case _:
            other = random.randrange(len(data) + 1)
            return data[:place] + data[other:]


@pytest.mark.parametrize("cls", all_requests(), ids=lambda cls: cls.__name__)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_corrupt_request_is_either_decoded_or_refused(cls: type[Any], seed: int) -> None:
    random = Random(seed)
    for version in versions_of(cls):
        data = joined(sample(cls, version, random), version)
        for _ in range(MUTANTS_PER_VERSION):
            data_or_mutant = data if random.random() < 0.8 else mutant(data, random)
            damaged = mutant(data_or_mutant, random)
            try:
                message = decode(cls, version, damaged)
            except RemoteProtocolError:
                continue
            # The decoded request is valid: it can be encoded and decoded again.
            written = joined(message, version)
            assert joined(decode(cls, version, written), version) == written


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_truncated_message_is_refused(cls: type[Any]) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        data = joined(sample(cls, version, random), version)
        for length in {*range(len(data))[-50:], *range(0, len(data), 7)}:
            with pytest.raises(RemoteProtocolError):
                decode(cls, version, data[:length])


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), index=st.integers(0), newest=st.booleans())
def test_arbitrary_bytes_are_decoded_or_refused(data: bytes, index: int, newest: bool) -> None:
    requests = all_requests()
    cls = requests[index % len(requests)]
    versions = versions_of(cls)
    with contextlib.suppress(RemoteProtocolError):
        decode(cls, versions[-1] if newest else versions[0], data)


def _allocated(call: Callable[[], object]) -> int:
    """Returns the most memory that was allocated at one moment."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    call()
    _, peak = tracemalloc.get_traced_memory()
    return peak - before


@pytest.mark.parametrize("cls", all_requests(), ids=lambda cls: cls.__name__)
def test_allocated_memory_is_bounded_by_the_received_bytes(cls: type[Any]) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        decode_or_refuse(cls, version, b"")  # compiles before the measurement
        data = joined(sample(cls, version, random), version)
        tracemalloc.start()
        try:
            for _ in range(20):
                damaged = mutant(data, random)
                # A thread of the test runner may allocate something once. The decoder allocates the same each time.
                allocated = min(_allocated(partial(decode_or_refuse, cls, version, damaged)) for _ in range(3))
                assert allocated < 16 * 1024 + 200 * len(damaged)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 4, b"\x7f\xff\xff\xff" + bytes(1000)),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\x07" + bytes(1000)),
        (ProduceRequest, 3, b"\xff\xff\x00\x01\x00\x00\x00\x00" + b"\x7f\xff\xff\xff" + bytes(1000)),
    ],
    ids=["classic", "compact", "produce"],
)
def test_a_large_count_in_a_small_message_builds_no_element(cls: type[Any], version: int, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="more elements"):
        decode(cls, version, data)


def test_a_large_message_of_small_elements_is_refused_before_it_becomes_objects() -> None:
    topics = ELEMENTS_MAX + 1
    data = topics.to_bytes(4, "big") + bytes(2 * topics)
    decoder(MetadataRequest, 3)  # compiled before the measurement
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="more elements"):
            decode(MetadataRequest, 3, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024
    assert len(decode(MetadataRequest, 3, data, 0, topics).topics or ()) == topics


@pytest.mark.parametrize("cls", all_requests(), ids=lambda cls: cls.__name__)
def test_reading_in_steps_gives_the_same_message(cls: type[Any]) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        data = joined(sample(cls, version, random), version)
        assert in_steps(cls, version, data, ELEMENTS_MAX)[0] == decode(cls, version, data)


def test_reading_in_steps_yields_after_every_few_elements_and_has_the_same_bounds() -> None:
    topics = 10 * STEP_ELEMENTS
    data = topics.to_bytes(4, "big") + bytes(2 * topics)
    message, steps = in_steps(MetadataRequest, 3, data, topics)
    assert (len(message.topics), steps) == (topics, 11)
    with pytest.raises(TooManyElementsError):
        in_steps(MetadataRequest, 3, data, topics - 1)


def in_steps(cls: type[Any], version: int, data: bytes, elements_max: int) -> tuple[Any, int]:
    """Returns the message, and the number of steps before it was complete."""
    generator, steps = step_decoder(cls, version)(memoryview(data), 0, elements_max), 0
    try:
        while True:
            next(generator)
            steps += 1
    except StopIteration as end:
        return end.value[0], steps


def test_elements_inside_elements_count_together() -> None:
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0)] * 10)] * 10
    data = joined(ProduceRequest(topic_data=topics), 9)
    assert decode(ProduceRequest, 9, data, 0, 110).topic_data == topics
    with pytest.raises(RemoteProtocolError, match="more elements"):
        decode(ProduceRequest, 9, data, 0, 109)


def test_tagged_fields_are_bounded_over_the_whole_message() -> None:
    """Each struct may have many, but all structs together may not."""
    of_topic = TAGS_MAX // 2 - 1
    tags = uvarint(of_topic) + b"\x05\x00" * of_topic
    topics = b"\x03" + 2 * (b"\x02t\x01" + tags)

    def request(last: int) -> bytes:
        return b"\x00\xff\xff\x00\x00\x00\x00" + topics + uvarint(last) + b"\x05\x00" * last

    assert len(decode(ProduceRequest, 9, request(2)).topic_data) == 2
    with pytest.raises(RemoteProtocolError, match="tagged fields"):
        decode(ProduceRequest, 9, request(3))


def test_repeated_known_tagged_fields_are_bounded() -> None:
    count = TAGS_MAX + 1
    fetch = joined(FetchRequest(), 15)
    assert fetch.endswith(b"\x00")
    body = fetch[:-1] + uvarint(count) + b"\x00\x01\x00" * count
    with pytest.raises(RemoteProtocolError, match="tagged fields"):
        decode(FetchRequest, 15, body)


def joined(message: Any, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]


def decode_or_refuse(cls: type[Any], version: int, data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decode(cls, version, data)
