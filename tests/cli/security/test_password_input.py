import argparse
import io
import os
import pty
import subprocess
import sys

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.security.password_input import password_options, print_generated, random_password, read_password
from tailrace.runtime.chance import RandomChance


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    password_options(parser)
    return parser.parse_args(words)


def read(*words: str, stdin: str = "", **environment: str) -> str:
    return read_password(arguments(*words), environment, io.StringIO(stdin), RandomChance())


def test_a_password_comes_from_standard_input_or_a_variable() -> None:
    assert read("--password-stdin", stdin="pa ss\r\nmore\n") == "pa ss"
    assert read("--password-env", "X", X="secret") == "secret"


def test_a_random_password_is_long_and_differs_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(read("--generate")) == 24
    assert random_password(RandomChance()) != random_password(RandomChance())
    print_generated(arguments("--generate"), "alice", "secret")
    captured = capsys.readouterr()
    assert (captured.out, "alice" in captured.err, "secret" in captured.err) == ("secret\n", True, False)
    print_generated(arguments("--password-stdin"), "alice", "secret")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        ((), "secret\n"),
        (("--password-stdin",), ""),
        (("--password-stdin",), "\n"),
        (("--password-stdin",), "a\x07b\n"),
        (("--password-stdin",), "\u2168\n"),
        (("--password-stdin",), "x" * 1025),
        (("--password-env", "MISSING"), ""),
    ],
)
def test_a_password_that_is_missing_or_that_clients_encode_differently_is_refused(
    words: tuple[str, ...], stdin: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(*words, stdin=stdin)
    assert "secret" not in str(caught.value)


PROGRAM = """
import argparse, sys
from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.security.password_input import password_options, read_password
from tailrace.runtime.chance import RandomChance
parser = argparse.ArgumentParser()
password_options(parser)
try:
    print("got", read_password(parser.parse_args([]), {}, sys.stdin, RandomChance())[::-1])
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize(("second", "printed"), [("secret", "got terces"), ("other", "the two passwords differ")])
def test_a_terminal_is_asked_twice_and_shows_nothing(second: str, printed: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown, answers = b"", ["secret", second]
    try:
        while piece := os.read(ours, 1024):
            shown += piece
            while answers and shown.count(b"Password") > 2 - len(answers):
                os.write(ours, answers.pop(0).encode() + b"\n")
    except OSError:
        pass  # Linux reports the end of the other side as an error
    finally:
        os.close(ours)
    assert process.wait() == 0
    assert printed in shown.decode() and "secret" not in shown.decode()
