"""Histories are checked by Adya where it is installed, and what Kafka allows is no failure."""

import shutil

import pytest
from simulation.runner import BY_TURNS
from simulation.transactions.external_check import failures, main, recorded, report_of
from simulation.transactions.planted_transaction_bugs import shows_open_transactions_to_committed_readers
from simulation.transactions.small_histories import ONE, Small
from simulation.transactions.transaction_history import Poll, Record
from simulation.transactions.transaction_scenario import transaction_scenario_of

needs_adya = pytest.mark.skipif(
    shutil.which("adya") is None, reason="needs `cargo install adya`, see docs/reliability.md"
)


def _report(name: str, *relations: str) -> dict[str, object]:
    steps = [{"rel": each} for each in relations]
    return {"anomalies": {name: [{"explanation": "because", "detail": {"steps": steps}}]}}


def test_records_of_transactions_may_lie_between_each_other() -> None:
    assert list(failures(_report("G0", "ww", "ww"))) == []
    assert list(failures(_report("G1c", "ww", "ww"))) == []


def test_what_read_committed_forbids_is_a_failure() -> None:
    assert list(failures(_report("G1c", "ww", "wr"))) == ["G1c: because"]
    assert list(failures(_report("G1a"))) == ["G1a: because"]
    assert list(failures({"anomalies": {"duplicate-elements": [{"explanation": "twice"}]}})) == [
        "duplicate-elements: twice"
    ]


@needs_adya
def test_adya_finds_an_aborted_read() -> None:
    small = Small()
    assert list(failures(report_of(small.history, "adya"))) == []
    small.reader.events.append(Poll(ONE, [Record(2, b"c")], 10.0, 10.1))
    assert any(each.startswith("G1a: ") for each in failures(report_of(small.history, "adya")))


@needs_adya
@pytest.mark.slow
def test_adya_checks_seeds_of_all_policies(capsys: pytest.CaptureFixture[str]) -> None:
    first = BY_TURNS.index("nrw:5,3,3")
    assert main(["--seeds", "2", "--first-seed", str(first), "--processes", "1"]) == 0, capsys.readouterr().out


@needs_adya
@pytest.mark.slow
def test_adya_finds_a_planted_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = transaction_scenario_of(0, faults=())
    outcome, history = recorded(scenario)
    assert outcome.failure is None
    assert list(failures(report_of(history, "adya"))) == []
    shows_open_transactions_to_committed_readers(monkeypatch)
    _, history = recorded(scenario)
    assert list(failures(report_of(history, "adya")))
