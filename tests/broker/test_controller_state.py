"""The state in its file: read back as it was, and never half."""

import json
import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tailrace.broker.controller_state import (
    ControllerState,
    DeletedTopic,
    StateError,
    decode_state,
    encode_state,
    new_topic_id,
)
from tailrace.cluster.topic_planning import NewTopic, plan_topic
from tailrace.protocol.ids import SpuId

TOPIC = plan_topic(NewTopic("t", 2, 2, configs={"retention.ms": "5"}), UUID(int=7), {}, [SpuId(1), SpuId(2)])
DELETED = plan_topic(NewTopic("__transaction_state", 1, 1), UUID(int=8), {}, [SpuId(1)])
STATE = ControllerState(
    cluster_id="c",
    next_producer_id=3000,
    broker_configs={"": {"num.partitions": "3"}, "1": {}},
    topics={"t": TOPIC},
    deleted_topics=(DeletedTopic(DELETED, 1234),),
)


def test_a_state_is_read_back_as_it_was() -> None:
    assert decode_state(encode_state(STATE)) == STATE
    empty = ControllerState("c")
    assert decode_state(encode_state(empty)) == empty


def test_every_flipped_or_missing_byte_is_noticed() -> None:
    data = encode_state(STATE)
    for position in range(len(data) - 1):  # the line's end says nothing
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(StateError):
            decode_state(bytes(damaged))
        with pytest.raises(StateError):
            decode_state(data[:position])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not written by a Tailrace controller"),
        (b'{"format": "something else"}', "not written by a Tailrace controller"),
        (
            b'{"format": "tailrace local controller", "version": 2}',
            "it has the version 2; this program reads version 1",
        ),
        (b'{"format": "tailrace local controller", "version": 1}', "checksum"),
    ],
)
def test_a_foreign_file_is_told_from_a_damaged_one(data: bytes, why: str) -> None:
    with pytest.raises(StateError, match=why):
        decode_state(data)


def _rename_topic(body: dict[str, Any]) -> None:
    body["topics"][0]["name"] = "../../etc"


def _misspell_config(body: dict[str, Any]) -> None:
    body["topics"][0]["configs"] = {"retention.ms": "soon"}


def _double_topic(body: dict[str, Any]) -> None:
    body["topics"] *= 2


def _forget_partitions(body: dict[str, Any]) -> None:
    body["topics"][0]["partitions"] = []


def _forget_leader(body: dict[str, Any]) -> None:
    del body["topics"][0]["partitions"][0]["leader"]


def _mistype_epoch(body: dict[str, Any]) -> None:
    body["topics"][0]["partitions"][0]["epoch"] = True


def _misspell_id(body: dict[str, Any]) -> None:
    body["topics"][0]["id"] = "7"


@pytest.mark.parametrize(
    "spoil",
    [
        _rename_topic,
        _misspell_config,
        _double_topic,
        _forget_partitions,
        _forget_leader,
        _mistype_epoch,
        _misspell_id,
    ],
)
def test_content_that_makes_no_sense_is_refused_though_its_checksum_fits(
    spoil: Callable[[dict[str, Any]], None],
) -> None:
    document = json.loads(encode_state(STATE))
    spoil(document["state"])
    text = json.dumps(document["state"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    document["checksum"] = zlib.crc32(text.encode())
    with pytest.raises(StateError, match="its content makes no sense"):
        decode_state(json.dumps(document).encode())


def test_no_topic_id_looks_like_an_option() -> None:
    ids = iter([UUID(int=0), UUID(int=1), UUID(bytes=b"\xf8" * 16), UUID(bytes=b"\xfb" * 16), UUID(bytes=b"\xfc" * 16)])
    assert new_topic_id(lambda: next(ids)) == UUID(bytes=b"\xfc" * 16)
