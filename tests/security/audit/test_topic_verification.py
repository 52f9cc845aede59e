"""Audit logs of several servers in one topic are verified by themselves."""

import pytest

from tailrace.security.audit.audit_chain import ChainState, chained, parse_line
from tailrace.security.audit.audit_event import AuditKind
from tailrace.security.audit.audit_signatures import Signer, new_private_pem, signature_check_of, signer_of
from tailrace.security.audit.topic_verification import CHAINS_MAX, TopicVerification

Records = list[tuple[bytes, bytes]]
SPU, SC = signer_of(new_private_pem()), signer_of(new_private_pem())


def _log(name: str, signer: Signer, count: int = 2) -> Records:
    """Returns the records of a server: some batches of one event and its checkpoint."""
    state, lines = ChainState(), list[bytes]()
    for number in range(count):
        line, state = chained(state, {"event": "change", "resource": f"{name} {number}"})
        lines.append(line)
        line, state = chained(state, {"event": AuditKind.CHECKPOINT, "signature": signer.sign(state)})
        lines.append(line)
    return [(f"{name}:{signer.public_text()}".encode(), line[:-1]) for line in lines]


def _faults(records: Records, verification: TopicVerification | None = None) -> list[str]:
    verification = verification or TopicVerification()
    for number, (key, value) in enumerate(records):
        verification.read(f"t/0 offset {number}", key, value)
    found = verification.end()
    return verification.others.faults + [f"{name}: {fault}" for name, each in found.items() for fault in each.faults]


def test_the_lines_of_servers_may_be_mixed_and_repeated() -> None:
    spu, sc = _log("spu-1-aa", SPU), _log("sc-bb", SC)
    mixed = [spu[0], sc[0], sc[1], spu[1], sc[0], sc[1], spu[2], spu[3], sc[2], sc[3], *spu]
    verification = TopicVerification()
    names = [found[0] for key, value in mixed if (found := verification.read("", key, value)) is not None]
    assert names == ["spu-1", "sc", "sc", "spu-1", "spu-1", "spu-1", "sc", "sc"]
    summaries = verification.end()
    assert {name: (each.faults, each.end.number, each.events) for name, each in summaries.items()} == {
        "spu-1-aa": ([], 4, 2),
        "sc-bb": ([], 4, 2),
    }
    assert verification.others.faults == []


def test_a_log_may_begin_later_because_old_records_are_deleted() -> None:
    assert _faults(_log("sc-bb", SC)[2:]) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda log: [log[0], *log[2:]], "sc-bb: line 2 is missing before t/0 offset 1"),
        (lambda log: [*log[:2], (log[2][0], log[2][1].replace(b" 1", b" 7")), log[3]], "does not fit its hash"),
        (lambda log: log[:-1], "sc-bb: line 3 is at the end without a valid signature"),
        (lambda log: [*log, (log[0][0], log[0][1].replace(b" 0", b" 9"))], "lines were reordered"),
        (lambda log: [*log, (b"me", log[0][1])], "t/0 offset 4 is not a line of a server's audit log"),
        (lambda log: [*log, (b"me:xx", log[0][1])], "t/0 offset 4 is not a line of a server's audit log"),
        (lambda log: [*log, (log[0][0], b"hello")], "t/0 offset 4 is not a line of a server's audit log"),
        (lambda log: [*log, (None, None)], "t/0 offset 4 is not a line of a server's audit log"),
    ],
)
def test_what_was_done_to_the_records_is_found(change: object, fault: str) -> None:
    assert callable(change)
    faults = _faults(change(_log("sc-bb", SC)))
    assert faults and fault in faults[0], faults


def test_only_given_keys_may_sign_and_each_must_have_signed() -> None:
    checks = [signature_check_of(each.public_pem()) for each in (SPU, SC)]
    trusted = {each.public_text(): each for each in checks}
    logs = [*_log("spu-1-aa", SPU), *_log("sc-bb", SC)]
    assert _faults(logs, TopicVerification(trusted)) == []
    stranger = signer_of(new_private_pem())
    forged = [*logs, *_log("spu-1-aa", stranger)]
    (fault,) = _faults(forged, TopicVerification(trusted))
    text = stranger.public_text()
    assert fault == f"spu-1-aa with the key {text}: its key {text} is none of those that were given"
    (fault,) = _faults(_log("sc-bb", SC), TopicVerification(trusted))
    assert fault == f"the topic has no line that is signed with the key {SPU.public_text()}"


def test_a_line_that_was_noted_must_be_there() -> None:
    logs = [*_log("spu-1-aa", SPU), *_log("sc-bb", SC)]
    noted = parse_line(logs[-1][1])
    assert noted is not None
    assert _faults(logs, TopicVerification(None, ChainState(noted.number, noted.hash))) == []
    assert _faults(logs[:4], TopicVerification(None, ChainState(noted.number, noted.hash))) == [
        "line 4 with the expected hash is not in the topic"
    ]


def test_invented_chains_take_bounded_memory() -> None:
    log = _log("spu-1-aa", SPU)
    text = SPU.public_text()
    invented = [(f"spu-{number}:{text}".encode(), log[0][1]) for number in range(CHAINS_MAX + 5)]
    verification = TopicVerification()
    assert sum(verification.read("here", key, value) is not None for key, value in invented) == CHAINS_MAX
    assert verification.others.fault_count == 5
