"""A broker under attack stays within its bounds, and serves others during the attack and after it.

Each attack runs for a moment, as a program of its own. `bench/hostile` measures how fast others are served meanwhile.
"""

import gzip
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacks.kinds import RECORDS, batch
from brokers import private_broker
from raw import API_VERSIONS, METADATA, PRODUCE, connect, metadata_request, produce_body, produce_result
from waiting import wait_until

SECONDS = 0.7
BOUNDS = {"max.connections": "2000", "queued.max.request.bytes": str(32 << 20)}
RESIDENT_MB_MAX = 192
"""More than an idle broker and all the memory that these attacks may take."""
RECORD = bytes.fromhex("0e00000001027800")
MESSAGE_TOO_LARGE, INVALID_RECORD = 10, 87
KINDS = (
    "slow_loris",
    "unread_responses",
    "huge_array",
    "nested_arrays",
    "tagged_fields",
    "decompression_bomb",
    "members",
    "huge_topic_creation",
)


@pytest.fixture(scope="module")
def broker(request, tmp_path_factory):
    if request.config.getoption("--broker") == "apache-kafka":
        pytest.skip("the bounds are ours")
    with private_broker(request, tmp_path_factory.mktemp("hostile"), BOUNDS) as broker:
        _produce_until_it_works(broker.bootstrap)
        yield broker
        assert broker.stop() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_others_are_served_and_memory_stays_bounded(broker, kind):
    command = [sys.executable, "-m", "attacks", kind, broker.bootstrap, str(SECONDS)]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with connect(broker.bootstrap) as neighbour:
        neighbour.socket.settimeout(30)
        attack = subprocess.Popen(command, env=environment, start_new_session=True)
        while attack.poll() is None:
            assert _produced(neighbour) == 0
        assert attack.returncode == 0
        assert _produced(neighbour) == 0
    with connect(broker.bootstrap) as another:
        another.socket.settimeout(30)
        assert _produced(another) == 0
    status = Path(f"/proc/{broker.pid}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) // 1024 < RESIDENT_MB_MAX


def test_a_request_with_more_tagged_fields_or_elements_than_allowed_is_refused(broker):
    for body in (b"\0\x0f\x42\x41" + bytes(2 * 1_000_001), b"\0\0\x27\x11" + bytes(2 * 10_001)):
        with connect(broker.bootstrap) as connection:
            connection.send(_framed(METADATA, 3, body))
            assert connection.is_closed_by_broker()


def test_a_small_batch_cannot_become_more_records_than_a_large_one_has(broker):
    """Nothing is decompressed to find that out."""
    with connect(broker.bootstrap) as connection:
        for count, error in ((RECORDS, INVALID_RECORD), (10 * RECORDS, MESSAGE_TOO_LARGE)):
            data = batch(gzip.compress(RECORD), count, compression=1)
            assert produce_result(connection.call(PRODUCE, 3, produce_body("neighbour", 0, data, acks=1)))[0] == error


def test_silent_connections_do_not_lock_out_others(request, tmp_path):
    """A client that has sent no request for a few seconds makes room, and one that has sent requests does not."""
    if request.config.getoption("--broker") == "apache-kafka":
        pytest.skip("the bounds are ours")
    with private_broker(request, tmp_path, {"max.connections": "3"}) as broker, ExitStack() as stack:
        known, silent, another = (stack.enter_context(connect(broker.bootstrap)) for _ in range(3))
        known.call(API_VERSIONS, 0, b"")
        another.call(API_VERSIONS, 0, b"")
        wait_until(lambda: _is_served(broker.bootstrap), 30, "a new client is served")
        assert silent.is_closed_by_broker()
        for each in (known, another):
            each.call(API_VERSIONS, 0, b"")


def _is_served(bootstrap):
    try:
        with connect(bootstrap) as connection:
            return len(connection.call(API_VERSIONS, 0, b"")) > 0
    except (OSError, EOFError, AssertionError):
        return False


def _framed(key, version, body):
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def _produced(connection):
    return produce_result(connection.call(PRODUCE, 3, produce_body("neighbour", 0, batch(RECORD, 1))))[0]


def _produce_until_it_works(bootstrap):
    """Creates the topics of the neighbour and of the attacks. A missing one is ready when it is asked for again."""
    with connect(bootstrap) as connection:
        for topic in ("neighbour", "attacked"):
            connection.call(METADATA, 1, metadata_request(topic))
        assert _produced(connection) == 0
