"""Plans for users, access rules, quotas and delegation tokens."""

import pytest
from msgspec.structs import replace
from security_samples import ALICE, CREDENTIAL, READ_ORDERS

from tailrace.controller.administration import security_planning
from tailrace.controller.administration.security_planning import plan_security
from tailrace.controller.objects.objects import SecurityEntry
from tailrace.controller.state.actions import Delete, Put
from tailrace.controller.state.events import Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_records import SecurityRecord, encode_record, key_of, kind_of
from tailrace.server.administration import SecurityEdit

BOB = replace(ALICE, name="bob")


def _local(*records: SecurityRecord) -> LocalStore:
    local = LocalStore()
    for version, record in enumerate(records, 1):
        local.apply(Stored(SecurityEntry(record, version)))
    return local


def _put(record: SecurityRecord) -> SecurityEdit:
    return SecurityEdit(kind_of(record), key_of(record), lambda _: record)


def _error(planned: object) -> KafkaError:
    assert isinstance(planned, KafkaError)
    return planned


def test_records_are_added_replaced_and_removed() -> None:
    changed = replace(ALICE, credentials=())
    local = _local(ALICE)
    edits = [_put(BOB), _put(changed), _put(ALICE), SecurityEdit("user", "alice", lambda _: None)]
    plans = plan_security([*edits, SecurityEdit("user", "nobody", lambda _: None)], local)
    assert [None if isinstance(each, KafkaError) else each.writes for each in plans] == [
        (Put(SecurityEntry(BOB)),),
        (Put(SecurityEntry(changed, 1)),),
        (),
        (Delete(SecurityEntry(ALICE, 1)),),
        (),
    ]


def test_an_edit_sees_what_is_stored_and_may_refuse() -> None:
    def refuse(before: SecurityRecord | None) -> SecurityRecord | None:
        assert before == ALICE
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "the user has no credential")

    (refused,) = plan_security([SecurityEdit("user", "alice", refuse)], _local(ALICE))
    assert _error(refused).code is ErrorCode.RESOURCE_NOT_FOUND


def test_there_is_a_limit_for_each_kind_that_replacing_does_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_planning, "RECORDS_MAX", {"user": 2, "acl": 1})
    edits = [_put(BOB), _put(replace(ALICE, credentials=())), _put(replace(ALICE, name="carol")), _put(READ_ORDERS)]
    plans = plan_security(edits, _local(ALICE))
    assert [isinstance(each, KafkaError) for each in plans] == [False, False, True, False]
    assert _error(plans[2]).code is ErrorCode.POLICY_VIOLATION
    assert "a cluster can have 2 users" in _error(plans[2]).message


def test_all_records_together_fit_into_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_planning, "SECURITY_BYTES_MAX", len(encode_record(ALICE)) + 300)
    rule = AclRecord(2, 3, "o" * 120, "User:alice", "*", 3, 3)
    local = _local(ALICE)
    assert local.security_bytes == len(encode_record(ALICE))
    first, second = plan_security([_put(rule), _put(replace(rule, host="::1"))], local)
    assert not isinstance(first, KafkaError)
    assert "together can take" in _error(second).message
    (smaller,) = plan_security([_put(replace(ALICE, credentials=()))], _local(ALICE, rule, replace(rule, host="::1")))
    assert not isinstance(smaller, KafkaError), "a change that makes it smaller is possible beyond the limit"


def test_a_record_that_cannot_be_stored_is_refused() -> None:
    (refused,) = plan_security([_put(replace(ALICE, name="a" * 2000, credentials=(CREDENTIAL,)))], _local())
    assert _error(refused).code is ErrorCode.INVALID_REQUEST
    assert "1 to 1024 bytes, not 2000" in _error(refused).message
