"""The commands about audit logs read either files or a topic."""

import pytest

from tailrace.cli.main import main


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "expected DIR, or --topic with the name of a topic"),
        (("./data", "--sc", "h:1"), "--sc is only for --topic"),
        (("./data", "--bootstrap", "h:1"), "--bootstrap is only for --topic"),
        (("./data", "--client-config", "f"), "--client-config is only for --topic"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    capsys: pytest.CaptureFixture[str], command: str, words: tuple[str, ...], sentence: str
) -> None:
    assert main(["audit", command, *words]) == 2
    assert capsys.readouterr().err == f"tailrace audit {command}: {sentence}\n"


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_directory_and_a_topic_do_not_go_together(capsys: pytest.CaptureFixture[str], command: str) -> None:
    # The sentence comes before anything is asked.
    assert main(["audit", command, "./data", "--topic", "audit", "--bootstrap", "127.0.0.1:1"]) == 2
    assert "a directory and --topic name different logs" in capsys.readouterr().err
