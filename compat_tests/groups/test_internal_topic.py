"""Kafka's own tools read groups and their members from `__consumer_offsets`."""

import json

import pytest
from clients.java import run_tool
from waiting import wait_until

from .members import OFFSETS_TOPIC, ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, partition_of, wait_until_shared

PARTITIONS = 2
CLASSIC, CONSUMER_PROTOCOL = ONE_OF_EACH_CLIENT[2], ONE_OF_EACH_CLIENT[3]
OFFSET, CLASSIC_GROUP = 1, 2


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def read(bootstrap, group):
    """Returns a function that reads the group's records with one of Kafka's formatters.

    Each record has the type and version of its key and value.
    """

    def of_group(formatter):
        printed = run_tool(
            *("console-consumer", "--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC),
            *("--partition", str(partition_of(group)), "--offset", "earliest", "--timeout-ms", "10000"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        )
        for record in documents(printed):
            key, value = record["key"], record["value"] or {}
            if key["data"]["group"] == group:
                yield key["type"], value.get("version"), key["data"], value.get("data")

    return of_group


def documents(printed):
    """Yields the JSON documents in the output, which have no separator and are mixed with other text."""
    decoder = json.JSONDecoder()
    position = 0
    while (position := printed.find('{"key"', position)) >= 0:
        document, position = decoder.raw_decode(printed, position)
        yield document


@pytest.mark.parametrize("flavour", [CLASSIC, CONSUMER_PROTOCOL], ids=str)
def test_kafkas_tools_read_what_members_commit(flavour, topic, group, fill, start_member, read):
    fill(topic, 10, PARTITIONS)
    member = start_member(flavour, topic, name="reader")
    wait_until_shared([member], {(topic, partition) for partition in range(PARTITIONS)})
    wait_until(
        lambda: list(member.committed.values()) == [10] * PARTITIONS, PATIENCE_SECONDS, "everything is committed"
    )
    committed = {}
    for record_type, version, key, value in read("OffsetsMessageFormatter"):
        assert (record_type, version) == (OFFSET, 4)
        committed[key["topic"], key["partition"]] = value["offset"]
    assert committed == {(topic, partition): 10 for partition in range(PARTITIONS)}
    groups = list(read("GroupMetadataMessageFormatter"))
    if flavour is CLASSIC:
        record_type, version, _, value = groups[-1]
        assert (record_type, version) == (CLASSIC_GROUP, 3)
        assert (value["protocolType"], len(value["members"])) == ("consumer", 1)
        assert value["members"][0]["clientId"] == "reader"
