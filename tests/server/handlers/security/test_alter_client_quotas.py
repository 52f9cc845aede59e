"""AlterClientQuotas; the cases are those of Kafka's ClientQuotasRequestTest."""

import pytest
from quota_samples import alter, quota
from simulation.client import WireClient
from spus import SC_PUBLIC, running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tailrace.security.records.quota_record import QuotaRecord
from tailrace.security.records.security_records import key_of

REFUSED = [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", [0, 1])
async def test_limits_are_added_replaced_and_removed(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        quotas = running.spu.cluster.security.quotas
        entity = {"user": "user", "client_id": "client-id"}

        async def change(values: dict[str, float], *removed: str) -> dict[str, float]:
            record = quota(values, **entity)
            assert await alter(client, record, removed=removed, version=version) == [0]
            return dict(quotas[key_of(record)].values) if key_of(record) in quotas else {}

        produce, consume, percent = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
        assert await change({produce: 10_000.0, consume: 20_000.0}) == {produce: 10_000.0, consume: 20_000.0}
        assert await change({produce: 15_000.0}) == {produce: 15_000.0, consume: 20_000.0}
        assert await change({}, produce) == {consume: 20_000.0}
        assert await change({}, percent) == {consume: 20_000.0}
        assert await change({produce: 5000.0}) == {produce: 5000.0, consume: 20_000.0}
        assert await change({produce: 20_000.0, percent: 12.3}, consume) == {produce: 20_000.0, percent: 12.3}
        assert await change({}, produce, percent) == {}
        assert not quotas


async def test_validation_changes_nothing(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        stored = quota({"producer_byte_rate": 20_000.0, "request_percentage": 23.45}, user="user")
        assert await alter(client, stored) == [0]
        for values, removed in (
            ({"consumer_byte_rate": 50_000.0}, []),
            ({"producer_byte_rate": 10_000.0}, []),
            ({}, ["request_percentage"]),
        ):
            assert await alter(client, quota(values, user="user"), removed=removed, validate_only=True) == [0]
            assert list(running.spu.cluster.security.quotas.values()) == [stored]
        assert await alter(client, quota({"bad": 1.0}, user="user"), validate_only=True) == REFUSED


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ([("user", "")], {"request_percentage": 12.34}),
        ([("client-id", "")], {"request_percentage": 12.34}),
        ([("", "name")], {"request_percentage": 12.34}),
        ([], {"producer_byte_rate": 10_000.5}),
        ([("user", "user")], {"bad": 1.0}),
        ([("user", "user")], {"producer_byte_rate": 10_000.5}),
        ([("user", "user"), ("ip", "1.2.3.4")], {"request_percentage": 12.34}),
        ([("client-id", "client"), ("ip", "1.2.3.4")], {"request_percentage": 12.34}),
        ([("ip", "not a valid host because it has spaces")], {"connection_creation_rate": 50.0}),
        ([("ip", "RFC2606.invalid")], {"connection_creation_rate": 50.0}),
    ],
)
async def test_a_wrong_entity_or_limit_is_refused(
    autojump_clock: object, entity: list[tuple[str, str | None]], values: dict[str, float]
) -> None:
    async with running_spu() as running:
        client = await running.client()
        for validate_only in (True, False):
            assert await alter(client, QuotaRecord(tuple(entity), values), validate_only=validate_only) == REFUSED
        assert not running.spu.cluster.security.quotas


async def test_each_entity_succeeds_or_fails_for_itself(autojump_clock: object) -> None:
    async with running_spu() as running:
        good, bad = quota({"request_percentage": 1.0}, user="a"), quota({"request_percentage": -1.0}, user="b")
        twice = quota({"request_percentage": 2.0}, user="c")
        codes = await alter(await running.client(), bad, good, twice, twice)
        assert codes == [*REFUSED, 0, *REFUSED, *REFUSED]
        assert list(running.spu.cluster.security.quotas.values()) == [good]


async def test_all_changes_of_an_entity_fail_together(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        values = {"request_percentage": 1.0, "producer_byte_rate": 0.5}
        assert await alter(client, quota(values, user="a")) == REFUSED
        entry = EntryData([EntityData("user", "a")], [OpData("request_percentage", 1.0)] * 2)
        response = await client.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry]))
        assert response.entries[0].error_code == ErrorCode.INVALID_REQUEST
        assert not running.spu.cluster.security.quotas


@pytest.mark.parametrize("name", ["user with spaces", "<default>", "ä/%"])
async def test_a_name_may_have_any_characters(autojump_clock: object, name: str) -> None:
    async with running_spu() as running:
        record = quota({"producer_byte_rate": 20_000.0}, user=name)
        assert await alter(await running.client(), record) == [0]
        assert list(running.spu.cluster.security.quotas.values()) == [record]


async def test_the_controller_takes_the_request_from_clients_as_well(autojump_clock: object) -> None:
    async with running_spu() as running:
        controller = WireClient(await running.world.network.connect(SC_PUBLIC))
        record = quota({"producer_byte_rate": 20_000.0}, user=None)
        assert await alter(controller, record) == [0]
        # The SPU learns it before the response to its own next request.
        assert await alter(await running.client(), quota({"producer_byte_rate": 1.0}, user="a")) == [0]
        assert key_of(record) in running.spu.cluster.security.quotas
