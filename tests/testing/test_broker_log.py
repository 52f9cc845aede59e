import os

import pytest

from tailrace.testing.broker_log import LOG_BYTES_MAX, BrokerLog


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_log_is_read_from_any_byte_on(is_closed: bool) -> None:
    log = BrokerLog()
    try:
        os.write(log.fileno(), b"one\ntwo\n")
        if is_closed:
            log.close()
        assert (log.size, log.text(), log.text(4), log.text(8), log.text(100)) == (8, "one\ntwo\n", "two\n", "", "")
    finally:
        log.close()


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_beginning_of_a_long_log_is_skipped(is_closed: bool) -> None:
    log = BrokerLog()
    try:
        os.write(log.fileno(), b"a" * 100 + b"b" * (LOG_BYTES_MAX - 1) + b"c")
        if is_closed:
            log.close()
        assert log.size == LOG_BYTES_MAX + 100
        assert log.text() == "b" * (LOG_BYTES_MAX - 1) + "c"
        assert log.text(log.size - 2) == "bc"
    finally:
        log.close()
