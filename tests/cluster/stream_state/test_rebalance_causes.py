from tailrace.cluster.stream_state.rebalance_causes import CAUSES, RebalanceCause


def test_every_cause_is_explained() -> None:
    assert CAUSES.keys() == set(RebalanceCause)
    assert all(text[0].islower() and not text.endswith(".") for text in CAUSES.values())
