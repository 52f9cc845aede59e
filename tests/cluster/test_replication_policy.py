"""Tests which texts are replication policies."""

import pytest

from tailrace.cluster.replication_policy import QuorumSizes, fault_of_policy, quorum_sizes


@pytest.mark.parametrize(
    ("policy", "replicas", "sizes"),
    [
        ("live", 3, None),
        ("majority", 1, QuorumSizes(1, 1, 1)),
        ("majority", 3, QuorumSizes(3, 2, 2)),
        ("majority", 4, QuorumSizes(4, 3, 3)),
        ("nrw:3,1,3", 3, QuorumSizes(3, 1, 3)),
    ],
)
def test_a_policy_says_how_many_stores_it_takes(policy: str, replicas: int, sizes: QuorumSizes | None) -> None:
    assert quorum_sizes(policy, replicas) == sizes
    assert fault_of_policy(policy) is None


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("", "live, majority or nrw:N,R,W"),
        ("Live", "live, majority or nrw:N,R,W"),
        ("nrw:3,2", "live, majority or nrw:N,R,W"),
        ("nrw:3,2,x", "live, majority or nrw:N,R,W"),
        ("nrw:3,2,²", "live, majority or nrw:N,R,W"),
        ("nrw:-3,2,2", "live, majority or nrw:N,R,W"),
        ("nrw:3,2,00002", "live, majority or nrw:N,R,W"),
        ("nrw:3,1,2", "R + W must be more than N"),
        ("nrw:3,0,4", "between 1 and N"),
        ("nrw:0,0,0", "between 1 and N"),
    ],
)
def test_what_is_none_is_told_why(policy: str, sentence: str) -> None:
    assert sentence in (fault_of_policy(policy) or "")


def test_a_quorum_is_of_as_many_stores_as_there_are() -> None:
    with pytest.raises(ValueError, match="nrw:5,3,3 is for 5 replicas, but there are 3"):
        quorum_sizes("nrw:5,3,3", 3)
    assert fault_of_policy("nrw:5,3,3") is None
