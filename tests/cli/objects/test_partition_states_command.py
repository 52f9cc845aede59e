import pytest

from tailrace.cli.main import main
from tailrace.controller.objects.partition_states import mermaid


def test_the_diagram_is_printed_without_asking_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "states"]) == 0
    assert capsys.readouterr().out == mermaid() + "\n"
