from pathlib import Path

from tailrace.cluster.stream_state.rebalance_causes import RebalanceCause


def test_the_reference_explains_every_cause() -> None:
    page = (Path(__file__).parents[3] / "docs/reference.md").read_text()
    for cause in RebalanceCause:
        assert f"    - `{cause.value}`: " in page
