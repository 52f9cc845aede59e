"""The diagram of transitions. `test_metadata_dispatcher.py` checks that there are no others."""

from tailrace.controller.objects.objects import PartitionResolution
from tailrace.controller.objects.partition_states import TRANSITIONS, mermaid


def test_each_status_is_reached_and_left() -> None:
    for resolution in PartitionResolution:
        assert any(before is resolution for before, _ in TRANSITIONS)
        assert any(after is resolution for _, after in TRANSITIONS) or resolution is PartitionResolution.NONE


def test_the_diagram_has_one_line_for_each_transition() -> None:
    first, *lines = mermaid().splitlines()
    assert first == "stateDiagram-v2"
    assert len(lines) == len(TRANSITIONS)
    assert lines[0] == "    [*] --> Offline: it was made"
    assert "    CandidateFound --> Online: it says that it leads" in lines
