"""Tests `tailrace token …` on a whole SPU; `compat_tests/security` logs in with the tokens."""

import pytest
from administered import through_brokers
from clusters import cluster_of
from trio.testing import MockClock

from tailrace.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", [("create",), ("list",), ("renew", "t"), ("expire", "t", "--in", "1h")])
async def test_a_client_that_has_not_logged_in_is_told_what_to_do(
    autojump_clock: MockClock, capsys: Capture, words: tuple[str, ...]
) -> None:
    async with cluster_of(1, broker={"delegation.token.secret.key": "k"}) as cluster:
        assert await through_brokers(cluster, "token", *words) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tailrace token {words[0]}: tokens are managed only by clients that have logged in")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", "--lifetime", "0s"), "'0s' is not a duration such as 90m, 12h or 2d"),
        (("renew", "t", "--for", "soon"), "'soon' is not a duration"),
        (("expire",), "TOKEN"),
    ],
)
def test_wrong_arguments_are_refused(capsys: Capture, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["token", *words])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
