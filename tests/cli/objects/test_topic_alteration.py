import argparse

import pytest

from tailrace.cli.objects.topic_alteration import Alteration, alter_options, alteration_of, corrected
from tailrace.cli.options.sc_options import UsageError

SPEC = {
    "partitions": 2,
    "replicationFactor": 2,
    "replicaMap": {"0": [1, 9], "1": [9, 1]},
    "configs": {"retention.ms": "5", "cleanup.policy": "compact"},
}
TOPIC = {"name": "orders", "id": "7", "spec": SPEC, "status": {"resolution": "InvalidConfig"}}


def given(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    alter_options(parser)
    return parser.parse_args(["orders", *words])


def test_a_map_brings_its_own_number_of_partitions_and_replicas() -> None:
    spec = corrected(TOPIC, Alteration({}, None, None, {0: [1]}))["spec"]
    assert spec == {"replicaMap": {0: [1]}, "configs": SPEC["configs"]}


def test_a_replication_factor_replaces_the_map() -> None:
    spec = corrected(TOPIC, Alteration({"retention.ms": None, "segment.ms": "7"}, None, 1, None))["spec"]
    assert spec == {
        "partitions": 2,
        "replicationFactor": 1,
        "configs": {"cleanup.policy": "compact", "segment.ms": "7"},
    }


def test_fewer_partitions_need_fewer_rows() -> None:
    spec = corrected(TOPIC, Alteration({}, 1, None, None))["spec"]
    assert (spec["partitions"], spec["replicaMap"]) == (1, {"0": [1, 9]})


@pytest.mark.parametrize("words", [(), ("--replication-factor", "0"), ("--partitions", "-1")])
def test_impossible_options_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        alteration_of(given(*words))
