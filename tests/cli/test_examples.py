import shlex

import pytest

from tailrace.cli.examples import EXAMPLES
from tailrace.cli.main import main, parse


def _command_words(example: str) -> list[str]:
    """Returns the arguments of `tailrace` in a line of a shell, which may have pipes and redirections."""
    if example.startswith("eval "):
        example = shlex.split(example)[1].strip("$()")
    reader = shlex.shlex(example, posix=True, punctuation_chars="|<>")
    reader.whitespace_split = True
    words = list(reader)
    words = words[[number for number, word in enumerate(words) if word == "tailrace"][-1] + 1 :]
    return words[: next((number for number, word in enumerate(words) if word[0] in "|<>"), None)]


@pytest.mark.parametrize(
    ("command", "example"), [(name, each) for name, examples in EXAMPLES.items() for each in examples]
)
def test_each_example_runs_its_command(command: str, example: str) -> None:
    words = _command_words(example)
    assert words[: len(command.split())] == command.split()
    parse(words)


def test_the_help_of_a_command_ends_with_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "topics", "--help"])
    assert capsys.readouterr().out.endswith("\nexamples:\n" + "".join(f"  {each}\n" for each in EXAMPLES["topic list"]))
