"""A token is asked for once, used until etcd refuses it, and then replaced."""

import pytest

from tailrace.controller.key_value.etcd.etcd_login import EtcdLogin, headers_of
from tailrace.security.settings.secret import Secret


def login() -> EtcdLogin:
    return EtcdLogin("sc", Secret("opensesame"))


def test_without_a_user_nothing_is_needed() -> None:
    assert not EtcdLogin().is_needed
    assert headers_of(EtcdLogin().token) == ()


def test_a_token_is_used_until_it_is_forgotten() -> None:
    user = login()
    assert user.is_needed
    assert user.request() == {"name": "sc", "password": "opensesame"}
    user.take("first")
    assert (user.is_needed, headers_of(user.token)) == (False, (("authorization", "first"),))
    user.forget("another one, which somebody has replaced already")
    assert not user.is_needed
    user.forget("first")
    assert user.is_needed


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (16, "etcdserver: invalid auth token"),
        (3, "etcdserver: revision of auth store is old"),
        (2, "auth: revision in header is old"),
        (3, "etcdserver: user name is empty"),
    ],
)
def test_another_token_may_help_a_user_only(code: int, message: str) -> None:
    assert login().can_renew(code, message)
    assert login().refusal(code, message) is None
    assert not EtcdLogin().can_renew(code, message)
    assert "--store-config" in str(EtcdLogin().refusal(code, message))


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (3, "etcdserver: authentication failed, invalid user ID or password", "the name or the password"),
        (9, "etcdserver: authentication is not enabled", "have no effect"),
        (7, "etcdserver: permission denied", "grant a role"),
    ],
)
def test_other_refusals_need_a_person(code: int, message: str, reason: str) -> None:
    assert not login().can_renew(code, message)
    refusal = login().refusal(code, message)
    assert refusal is not None
    assert reason in refusal
    assert "opensesame" not in refusal


def test_other_errors_are_no_refusals() -> None:
    assert login().refusal(14, "etcdserver: no leader") is None
    assert login().refusal(5, "etcdserver: requested lease not found") is None
