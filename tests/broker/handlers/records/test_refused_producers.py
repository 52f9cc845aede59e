"""A refused producer is logged once, with its client."""

from typing import Any
from uuid import uuid4

import pytest
from spus import batch
from structlog import get_logger
from structlog.testing import capture_logs

from tailrace.broker.handlers.records import refused_producers
from tailrace.broker.handlers.records.refused_producers import RefusedProducers
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.server.request_context import ClientIdentity, RequestContext, request_without_connection

FENCED = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "its epoch is over")


def _sent(producer: int, epoch: int = 0) -> bytes:
    return batch(b"a", producer_id=producer, producer_epoch=epoch, base_sequence=0)


def _context(client_id: str | None = "orders") -> RequestContext:
    context = request_without_connection(ApiKey.PRODUCE, 12, ClientIdentity("192.0.2.1:4"))
    context.client_id = client_id
    return context


def _logged(*refusals: tuple[bytes | None, KafkaError]) -> list[dict[str, Any]]:
    with capture_logs() as lines:
        refused = RefusedProducers(get_logger())
        for records, error in refusals:
            refused.on_refused(_context(), "id", "t-0", records, error)
    return [dict(line) for line in lines]


def test_a_refused_producer_is_logged_once_with_its_client() -> None:
    (line,) = _logged((_sent(7), FENCED), (_sent(7), FENCED))
    assert line == {
        "event": "producer_refused",
        "log_level": "warning",
        "reason": "its epoch is over",
        "error": "INVALID_PRODUCER_EPOCH",
        "partition": "t-0",
        "producer_id": 7,
        "producer_epoch": 0,
        "transactional_id": "id",
        "client_id": "orders",
        "client": "192.0.2.1:4",
        "software": "unknown",
    }


def test_a_producer_that_comes_back_with_a_new_epoch_is_logged_again() -> None:
    lines = _logged((_sent(7), FENCED), (_sent(7, 1), FENCED), (_sent(8), FENCED))
    assert [(line["producer_id"], line["producer_epoch"]) for line in lines] == [(7, 0), (7, 1), (8, 0)]


def test_errors_that_a_retry_helps_against_are_not_logged() -> None:
    retriable = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not yet")
    assert _logged((_sent(7), retriable), (None, FENCED), (b"damaged", FENCED), (_sent(-1), FENCED)) == []


def test_the_memory_of_producers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_producers, "REMEMBERED_MAX", 2)
    lines = _logged(*((_sent(producer), FENCED) for producer in (1, 2, 2, 3, 1)))
    assert [line["producer_id"] for line in lines] == [1, 2, 3, 1]


def test_long_names_of_clients_are_shortened() -> None:
    with capture_logs() as lines:
        RefusedProducers(get_logger()).on_refused(_context("c" * 1000), "i" * 1000, str(uuid4()), _sent(7), FENCED)
    assert len(lines[0]["client_id"]) == len(lines[0]["transactional_id"]) == 201
