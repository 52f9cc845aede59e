import argparse
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tailrace.pipeline.replay.replay_arguments import configure, settings_of
from tailrace.pipeline.replay.replay_line import ReplayError

REQUIRED = ("--topic", "orders", "--to-topic", "copy")


def _given(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    configure(parser)
    return parser.parse_args([*REQUIRED, *words])


def test_places_partitions_and_speeds_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("abc\n")
    words = ("--from-segments", "a,b", "--map", "m", "--from", '{"0": 5}', "--until", "2026-01-31T12:00:00Z")
    found = settings_of(
        _given(*words, "--partitions", "0,3-5", "--speed", "10x", "--mask", "key=hash", "--mask-secret", str(secret))
    )
    assert found["from_segments"] == ["a", "b"]
    assert found["start"] == {0: 5}
    assert found["until"] == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert found["partitions"] == (0, 3, 4, 5)
    assert found["speed"] == 10.0
    assert found["secret"] == b"abc"


@pytest.mark.parametrize(
    "words", [("--from", "yesterday"), ("--until", '{"0": -1}'), ("--partitions", "5-3"), ("--speed", "0x")]
)
def test_a_wrong_value_is_refused(words: tuple[str, str]) -> None:
    with pytest.raises(argparse.ArgumentError):
        _given(*words)


def test_what_is_missing_or_has_no_effect_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("abc")
    for words, sentence in (
        ((), "--from-archive or --from-segments is missing"),
        (("--from-segments", "a"), "--map is missing"),
        (("--from-segments", "a", "--dry-run", "--speed", "1x"), "--speed has no effect together with --dry-run"),
        (("--from-segments", "a", "--dry-run", "--mask-secret", f"{tmp_path}/no"), "cannot be read: No such file"),
        (("--from-segments", "a", "--dry-run", "--mask-secret", str(secret)), "--mask-secret has no effect without"),
        (("--from-segments", "a", "--dry-run", "--mask", "key=hash"), "--mask with hash needs --mask-secret"),
        (("--from-segments", "a", "--dry-run", "--mask", "key"), "'key' is no mask"),
        (("--from-segments", "a", "--dry-run", "--key-regex", "("), "is no regular expression"),
    ):
        with pytest.raises(ReplayError, match=sentence):
            settings_of(_given(*words))
