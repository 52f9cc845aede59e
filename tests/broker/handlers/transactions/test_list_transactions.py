"""ListTransactions on a whole SPU."""

from typing import Any

import pytest
from spus import running_spu
from transaction_clients import TransactionalProducer, transacting

from tailrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["id", "second"]),
        ({"state_filters": ["Ongoing"]}, ["id"]),
        ({"state_filters": ["Ongoing", "Empty"]}, ["id", "second"]),
        ({"state_filters": ["Dead"]}, []),
        ({"producer_id_filters": [-5]}, []),
        ({"transactional_id_pattern": "s.*"}, ["second"]),
        ({"duration_filter": 60_000}, ["second"]),  # as in Kafka, an id without a transaction has run forever
    ],
)
async def test_ids_that_match_are_listed(autojump_clock: object, filters: dict[str, Any], found: list[str]) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await TransactionalProducer(producer.client, "second").init()
        await producer.add("t", 0)
        response = await producer.list(**filters)
        assert response.error_code == 0
        assert sorted(each.transactional_id for each in response.transaction_states) == found


async def test_unknown_states_are_named(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        response = await producer.list(state_filters=["Ongoing", "Odd", "Odd"])
        assert (response.unknown_state_filters, response.transaction_states) == (["Odd"], [])


async def test_a_pattern_that_cannot_be_understood_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        response = await producer.list(transactional_id_pattern="(")
        assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
