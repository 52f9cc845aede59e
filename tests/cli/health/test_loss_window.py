import pytest

from tailrace.cli.health.findings import Level
from tailrace.cli.health.loss_window import NEVER, LossWindow, loss_finding, loss_rows, loss_window, window_text


@pytest.mark.parametrize(
    ("replicas", "configs", "window_ms", "copies"),
    [
        (1, {"flush.ms": "1000", "flush.messages": str(2**63 - 1)}, 1000, 1),
        (3, {"flush.ms": "1000", "min.insync.replicas": "2"}, 1000, 2),
        (3, {"flush.ms": "1000", "flush.messages": "1"}, 0, 1),
        (3, {"flush.ms": str(NEVER)}, None, 1),
        (1, {"flush.ms": "10", "min.insync.replicas": "2"}, 10, 1),
        (3, {"flush.ms": "10", "replication.policy": "majority"}, 10, 2),
        (5, {"flush.ms": "10", "replication.policy": "nrw:5,2,4"}, 10, 4),
        (2, {"flush.ms": "10", "replication.policy": "nrw:5,2,4"}, 10, 1),
        (3, {}, None, 1),
    ],
)
def test_the_window_and_the_copies_of_a_topic(
    replicas: int, configs: dict[str, str], window_ms: int | None, copies: int
) -> None:
    assert loss_window("orders", replicas, configs) == LossWindow("orders", window_ms, copies)


def test_topics_with_the_same_numbers_share_a_row_and_the_riskiest_come_first() -> None:
    windows = [LossWindow("a", 0, 1), LossWindow("b", 1000, 1), LossWindow("c", 1000, 1), LossWindow("d", None, 2)]
    assert loss_rows(windows) == [
        ("b and c", 1, "1 s"),
        ("a", 1, "0 s (waits for the disk)"),
        ("d", 2, "until the operating system writes it"),
    ]
    assert window_text(250) == "0.25 s"


def test_a_record_on_one_machine_alone_is_a_warning() -> None:
    warned = loss_finding([LossWindow("a", 0, 1), LossWindow("b", 1000, 1), LossWindow("c", None, 1)])
    assert warned.level is Level.WARNING
    assert warned.text.endswith("of b and c: each record is only in its memory until the operating system writes it.")
    assert loss_finding([LossWindow("b", 1000, 1)]).text.endswith("only in its memory for up to 1 s.")


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        ([], "There is no topic that could lose a record."),
        ([LossWindow("a", 0, 1)], "Producers wait for the disk, so no power failure loses a record."),
        (
            [LossWindow("a", 1000, 2), LossWindow("b", 500, 3)],
            "An acknowledged record is in the memory of at least 2 se",
        ),
    ],
)
def test_safe_topics_are_fine(windows: list[LossWindow], text: str) -> None:
    found = loss_finding(windows)
    assert found.level is Level.OK
    assert found.text.startswith(text)
