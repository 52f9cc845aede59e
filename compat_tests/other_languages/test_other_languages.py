"""Clients that contain neither librdkafka nor Java: their own producers, group members and admin clients."""

import uuid

import pytest
from other_languages.programs import GO, NODE, Language

CLIENTS = [
    (GO, "franz_go", "classic"),
    (GO, "franz_go", "consumer"),
    (GO, "sarama", "classic"),
    (GO, "kafka_go", "classic"),
    (NODE, "kafkajs", "classic"),
    (NODE, "platformatic", "classic"),
    (NODE, "platformatic", "consumer"),
]


@pytest.mark.parametrize(("language", "program", "protocol"), CLIENTS, ids=lambda given: getattr(given, "name", given))
def test_client_produces_and_reads_in_a_group(language: Language, program: str, protocol: str, bootstrap: str) -> None:
    if not language.is_installed():
        pytest.skip(f"no {' and '.join(language.tools)} on this machine")
    topic = f"{program}-{protocol}-{uuid.uuid4().hex[:8]}"

    report = language.run(program, bootstrap, topic, f"{topic}-readers", protocol)

    assert sorted(report.values) == sorted(f"value{i}" for i in range(200))
    assert sorted(report.committed) == ["0", "1", "2"]
    assert sum(report.committed.values()) == 200
    assert report.state.lower() == "stable"


@pytest.mark.parametrize("program", ["franz_go_transactions", "sarama_transactions"])
def test_client_copies_records_in_transactions(program: str, bootstrap: str) -> None:
    if not GO.is_installed():
        pytest.skip("no go on this machine")
    topic = f"{program}-{uuid.uuid4().hex[:8]}"

    report = GO.run(program, bootstrap, topic, f"{topic}-copiers")

    assert sorted(report.values) == sorted(f"value{i}" for i in range(200))
    assert sum(report.committed.values()) >= 200
    assert report.state in ("PrepareAbort", "CompleteAbort")
