"""The checks that the chaos tests rely on find what they must find."""

import struct

import pytest
from chaos.records import History, Sent
from chaos.replica_logs import control_offsets, differences, read_replica, restarted_epochs
from clients.batches import build_batch

PLACE = ("topic", 0)
CONTROL = 1 << 5


def stored_batch(base, values, epoch=1, attributes=0, producer=(-1, -1, -1)):
    batch = bytearray(build_batch(values, producer=producer))
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, 12, epoch)
    struct.pack_into(">h", batch, 21, attributes)
    return bytes(batch)


@pytest.fixture
def replica(tmp_path):
    """Returns a function that writes a replica of these batches, with one file for each batch."""

    def make(node, *batches):
        directory = tmp_path / str(node)
        directory.mkdir()
        for batch in batches:
            (base,) = struct.unpack_from(">q", batch)
            (directory / f"{base:020}.log").write_bytes(batch)
        return read_replica(directory)

    return make


WHOLE = (stored_batch(0, [b"a", b"b"]), stored_batch(2, [b"c"]))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(WHOLE[:1], id="shorter"),
        pytest.param((*WHOLE, stored_batch(3, [b"d"])), id="longer"),
        pytest.param((WHOLE[0], stored_batch(2, [b"d"])), id="another value"),
        pytest.param((WHOLE[0], stored_batch(3, [b"c"])), id="another place"),
    ],
)
def test_copies_that_differ_are_told_apart(replica, other):
    copies = {1: replica(1, *WHOLE), 2: replica(2, *WHOLE), 3: replica(3, *other)}
    assert len(differences(copies)) == 1
    assert differences(copies, up_to=2) == []
    assert differences({node: copies[node] for node in (1, 2)}) == []


def test_a_producer_that_begins_another_epoch_is_seen(replica):
    first, again, next_one = (
        stored_batch(offset, [b"a"], producer=(7, epoch, sequence))
        for offset, epoch, sequence in ((3, 0, 0), (4, 1, 0), (5, 1, 1))
    )
    assert restarted_epochs(replica(1, *WHOLE, first)) == []
    assert len(restarted_epochs(replica(2, first, again, next_one))) == 1


def test_the_leader_epoch_of_a_batch_may_be_another_one(replica):
    assert differences({1: replica(1, *WHOLE), 2: replica(2, WHOLE[0], stored_batch(2, [b"c"], epoch=2))}) == []


def test_a_batch_that_is_being_written_is_not_there_yet(replica, tmp_path):
    replica(1, *WHOLE)
    with (tmp_path / "1" / f"{2:020}.log").open("ab") as file:
        file.write(stored_batch(3, [b"d"])[:-1])
    assert [batch.last for batch in read_replica(tmp_path / "1")] == [1, 2]


def test_offsets_of_control_batches_are_known(replica):
    assert control_offsets(replica(1, WHOLE[0], stored_batch(2, [b"c", b"d"], attributes=CONTROL))) == {2, 3}


LOG = [(0, b"one:0"), (1, b"other"), (3, b"one:1")]
SENT = Sent("one", {PLACE: 2}, {PLACE: [(0, b"one:0"), (3, b"one:1")]})


@pytest.mark.parametrize(
    ("log", "seen", "unseen"),
    [
        pytest.param(LOG, LOG, set(), id="a gap"),
        pytest.param(LOG, LOG, {2, 3}, id="a record that no consumer sees"),
        pytest.param(LOG[:2], LOG[:2], {2}, id="lost"),
        pytest.param([(0, b"one:0"), (1, b"one:0"), (3, b"one:1")], None, {2}, id="doubled"),
        pytest.param([(0, b"one:1"), (1, b"other"), (3, b"one:0")], None, {2}, id="out of order"),
        pytest.param([(0, b"other"), (1, b"one:0"), (3, b"one:1")], None, {2}, id="moved"),
        pytest.param(LOG, [(0, b"one:0"), (1, b"cut"), (3, b"one:1")], {2}, id="seen, and truncated later"),
        pytest.param(LOG, LOG[:2], {2}, id="not seen"),
    ],
)
def test_an_impossible_history_is_detected(log, seen, unseen):
    assert History({PLACE: LOG}, [SENT], [{PLACE: LOG}], {PLACE: {2}}).contradictions() == []
    assert History({PLACE: log}, [SENT], [{PLACE: seen or log}], {PLACE: unseen}).contradictions() != []


def test_the_log_end_is_known_even_if_the_offsets_of_some_records_are_not():
    for unknown in (None, -1001):
        acknowledged = [(0, b"one:0"), (3, b"one:1"), (unknown, b"one:3"), (unknown, b"one:2")]
        assert Sent("one", {PLACE: 4}, {PLACE: acknowledged}).ends() == {PLACE: 6}
    assert SENT.ends() == {PLACE: 4}
