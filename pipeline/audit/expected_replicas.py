"""Asks the Streaming Controller on which SPUs each partition should have its replicas."""

from collections.abc import Sequence
from contextlib import closing

import trio

from tailrace.client.client_network import client_seams
from tailrace.client.sc_client import ScClient
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import Address, Network

from .copy_finding import Expected


async def expected_by(client: ScClient) -> Expected:
    """Returns what the SC knows, without replicas that are being added. Raises UnreachableError and RefusedError."""
    described = (await client.describe_partitions(None)).partitions
    return Expected(
        spus={
            (each.topic_id, each.partition): tuple(spu for spu in each.replicas if spu not in each.adding)
            for each in described
        },
        topics={each.topic_id: each.topic for each in described},
    )


def ask_expected(addresses: Sequence[Address]) -> Expected:
    """Asks the SC at one of these addresses. Raises UnreachableError and RefusedError."""

    async def ask(network: Network) -> Expected:
        with closing(ScClient(network, addresses)) as client:
            return await expected_by(client)

    try:
        return trio.run(ask, client_seams().network)
    except BaseExceptionGroup as group:
        raise first_error(group) from None
