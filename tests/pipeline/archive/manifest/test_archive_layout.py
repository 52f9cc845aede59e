from uuid import UUID

import pytest

from tailrace.pipeline.archive.manifest.archive_layout import (
    NO_DATE,
    TOKEN_DIGITS,
    WAVE_DIGITS,
    FileFacts,
    archived_topic_id,
    commit_name,
    data_path,
    date_of,
    head_name,
    is_of_wave,
    may_have_times,
    parse_file_name,
    parse_head_name,
    temporary_name,
)

TOPIC_ID = "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b"


def test_a_file_name_says_what_the_file_holds() -> None:
    facts = FileFacts(TOPIC_ID, 3, 40, 99, 7, "5f3a9c01")
    assert facts.name == f"{TOPIC_ID}-p00003-00000000000000000040-00000000000000000099-e7-5f3a9c01.parquet"
    assert parse_file_name(facts.name) == facts
    path = data_path("orders", "2026-11-28", facts.name)
    assert path == f"data/orders/date=2026-11-28/{facts.name}"


@pytest.mark.parametrize("epoch", [-1, 0, 2**31 - 1])
def test_names_hold_all_numbers(epoch: int) -> None:
    facts = FileFacts(TOPIC_ID, 2**31 - 1, 0, 2**63 - 1, epoch, "00000000")
    assert parse_file_name(facts.name) == facts


@pytest.mark.parametrize("name", ["x.parquet", f"{TOPIC_ID}-p00003-1-2-e7-5f3a9c01.parquet", "head-0000000001.json"])
def test_other_files_are_no_data_files(name: str) -> None:
    assert parse_file_name(name) is None


def test_the_files_of_a_wave_are_known_by_their_names() -> None:
    facts = FileFacts(TOPIC_ID, 3, 40, 99, 7, "5f3a9c0112345678")
    assert len(facts.token) == TOKEN_DIGITS
    for name in (facts.name, temporary_name(TOPIC_ID, 3, facts.token, "2026-11-28")):
        assert is_of_wave(name, "5f3a9c01")
        assert not is_of_wave(name, "5f3a9c02")
        assert not is_of_wave(name, "")
    assert is_of_wave(temporary_name(TOPIC_ID, 3, facts.token, NO_DATE), "5f3a9c01")
    assert not is_of_wave("5f3a9c0112345678.tmp", "5f3a9c01")


def test_a_wave_and_the_attempts_within_it_have_enough_digits_that_none_meet() -> None:
    assert 8 <= WAVE_DIGITS <= TOKEN_DIGITS - 8


def test_commits_and_heads_have_numbers() -> None:
    assert commit_name(12, "5f3a9c01") == "0000000012-5f3a9c01.json"
    assert parse_head_name(head_name(12)) == 12
    assert parse_head_name("0000000012-5f3a9c01.json") is None


@pytest.mark.parametrize(
    ("timestamp_ms", "date"),
    [
        (0, "1970-01-01"),
        (1_795_876_327_123, "2026-11-28"),
        (-2, "1969-12-31"),
        (-62_135_596_800_000, "0001-01-01"),
        (253_402_300_799_999, "9999-12-31"),
        (-1, NO_DATE),
        (253_402_300_800_000, NO_DATE),
        (-62_135_596_800_001, NO_DATE),
        (2**63 - 1, NO_DATE),
        (-(2**63), NO_DATE),
    ],
)
def test_the_date_is_that_of_the_timestamp_in_utc(timestamp_ms: int, date: str) -> None:
    assert date_of(timestamp_ms) == date


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "dates"),
    [
        (None, None, ["1969-12-31", "1970-01-01", "1970-01-02", NO_DATE]),
        (0, None, ["1970-01-01", "1970-01-02", NO_DATE]),
        (0, 86_400_000, ["1970-01-01", NO_DATE]),
        (None, 86_400_001, ["1969-12-31", "1970-01-01", "1970-01-02", NO_DATE]),
        (-(2**62), 2**62, ["1969-12-31", "1970-01-01", "1970-01-02", NO_DATE]),
    ],
)
def test_the_date_tells_whether_a_file_may_have_records_of_a_window(
    begin_ms: int | None, end_ms: int | None, dates: list[str]
) -> None:
    every = ["1969-12-31", "1970-01-01", "1970-01-02", NO_DATE]
    assert [each for each in every if may_have_times(each, begin_ms, end_ms)] == dates


def test_a_topic_without_an_id_is_archived_by_its_name() -> None:
    assert archived_topic_id("orders", UUID(TOPIC_ID)) == TOPIC_ID
    nameless = archived_topic_id("orders", UUID(int=0))
    assert nameless == archived_topic_id("orders", UUID(int=0))
    assert nameless != archived_topic_id("events", UUID(int=0))
