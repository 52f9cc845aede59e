import pytest
from public_sc import ADDRESS, public_sc, tailrace

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import UnreachableError
from tailrace.pipeline.audit.expected_replicas import ask_expected, expected_by
from tailrace.runtime.network import Address


async def test_the_sc_knows_which_spus_have_replicas() -> None:
    async with public_sc() as sc:
        for each in (1, 2):
            words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
            assert await tailrace(sc.network, "spu", "register", *words) == 0
        await sc.running.connect(1, 2)
        words = ("--partitions", "2", "--replication-factor", "2", "--wait", "5")
        assert await tailrace(sc.network, "topic", "create", "orders", *words) == 0
        expected = await expected_by(ScClient(sc.network, [ADDRESS]))
        assert expected.spus is not None
        ((topic_id, topic),) = expected.topics.items()
        assert topic == "orders"
        assert {key: sorted(spus) for key, spus in expected.spus.items()} == {
            (topic_id, 0): [1, 2],
            (topic_id, 1): [1, 2],
        }


def test_an_sc_that_does_not_respond_is_an_error() -> None:
    with pytest.raises(UnreachableError):
        ask_expected([Address("127.0.0.1", 1)])
