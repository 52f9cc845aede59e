from pathlib import Path

from tailrace.cluster.stream_state.rebalance_causes import CAUSES, RebalanceCause


def test_every_cause_is_explained() -> None:
    assert CAUSES.keys() == set(RebalanceCause)
    assert all(text[0].islower() and not text.endswith(".") for text in CAUSES.values())


def test_the_reference_explains_the_causes_in_the_same_words() -> None:
    page = (Path(__file__).parents[3] / "docs/reference.md").read_text()
    for cause, text in CAUSES.items():
        assert f"    - `{cause.value}`: {text}.\n" in page
