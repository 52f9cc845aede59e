from typing import Any

import pytest
from msgspec.structs import replace

from tailrace.trigger.config.config_checks import LEASE_PART, ConfigCheckError, check_config
from tailrace.trigger.config.trigger_config import (
    Acknowledgement,
    Guarantee,
    OnExhausted,
    Order,
    Retry,
    RetryMode,
    TriggerConfig,
)
from tailrace.trigger.membership.member_lease import HAND_OUT_FRACTION

CONFIG = TriggerConfig(name="bill", topic="orders", group="billing")


def _fault(*given: str, **values: Any) -> str:
    with pytest.raises(ConfigCheckError) as caught:
        check_config(replace(CONFIG, **values), given or values.keys())
    return str(caught.value)


def test_the_defaults_do_not_contradict_each_other() -> None:
    check_config(CONFIG, ())
    check_config(CONFIG, ("name", "topic", "group"))


@pytest.mark.parametrize("heartbeat", [8.0, 10.0, 11.0])
def test_a_heartbeat_must_come_before_the_lease_ends(heartbeat: float) -> None:
    assert "too long for the session timeout of 10s: it must be shorter than 8s" in _fault(heartbeat_interval=heartbeat)
    check_config(replace(CONFIG, heartbeat_interval=7.9), ("heartbeat_interval",))
    assert LEASE_PART == HAND_OUT_FRACTION, "the lease of a member ends then"


def test_the_least_number_of_replicas_is_not_larger_than_the_largest() -> None:
    assert _fault(min_replicas=4, replicas=3) == ("the smallest number of replicas, 4, is larger than the largest, 3")
    check_config(replace(CONFIG, min_replicas=3, replicas=3), ("min_replicas",))


def test_settings_of_batches_need_a_batch_size() -> None:
    assert "has no effect without a batch size" in _fault(batch_seconds=1.0)
    assert "has no effect without a batch size" in _fault("split_batch", retry=Retry(split_batch=True))
    check_config(replace(CONFIG, batch_size=10, batch_seconds=1.0), ("batch_size", "batch_seconds"))


def test_a_batch_is_split_for_a_second_attempt_only() -> None:
    retry = Retry(attempts=1, split_batch=True)
    assert "no effect with one attempt" in _fault("split_batch", retry=retry, batch_size=10)


@pytest.mark.parametrize("mode", [Acknowledgement.EXPLICIT, Acknowledgement.EITHER])
def test_explicit_acknowledgement_works_with_single_events_only(mode: Acknowledgement) -> None:
    assert "single events only" in _fault(acknowledgement=mode, batch_size=10)
    check_config(replace(CONFIG, acknowledgement=mode, order=Order.KEY), ("acknowledgement", "order"))
    check_config(replace(CONFIG, acknowledgement=mode, retry=Retry(mode=RetryMode.ASIDE)), ("acknowledgement",))


@pytest.mark.parametrize("name", ["retry_backoff", "retry_mode", "retry_max_age"])
def test_settings_of_retries_have_no_effect_with_one_attempt(name: str) -> None:
    assert "has no effect with one attempt" in _fault(name, retry=Retry(attempts=1))


@pytest.mark.parametrize("order", [Order.KEY, Order.SHARD])
def test_a_retry_aside_gives_up_the_order(order: Order) -> None:
    text = _fault("retry_mode", "order", retry=Retry(mode=RetryMode.ASIDE), order=order)
    assert f"the order by {order} cannot be kept" in text
    check_config(replace(CONFIG, retry=Retry(mode=RetryMode.ASIDE)), ("retry_mode",))


def test_a_shard_cannot_stop_at_an_event_that_went_aside() -> None:
    retry = Retry(mode=RetryMode.ASIDE)
    assert "cannot stop at the event" in _fault("retry_mode", retry=retry, on_exhausted=OnExhausted.STOP)


def test_a_topic_of_dead_letters_needs_dead_letters() -> None:
    assert "has no effect, because an event that keeps failing is handled by skip" in _fault(
        dead_letters="dead", on_exhausted=OnExhausted.SKIP
    )


def test_dead_letters_do_not_return_to_the_function() -> None:
    assert "again and again" in _fault(dead_letters="orders")


@pytest.mark.parametrize(("name", "value"), [("open_events_max", 5), ("acknowledgement_timeout", 5.0)])
def test_settings_of_explicit_acknowledgement_need_it(name: str, value: object) -> None:
    assert "choose explicit acknowledgement" in _fault(**{name: value})
    check_config(replace(CONFIG, **{name: value}, acknowledgement=Acknowledgement.EITHER), (name,))


@pytest.mark.parametrize("group", ["my group", "team/billing", "g" * 249])
def test_the_topics_of_failed_records_can_have_their_names(group: str) -> None:
    assert "the topic of dead letters cannot have the name" in _fault("group", group=group)
    check_config(replace(CONFIG, group=group, dead_letters="dead"), ("group", "dead_letters"))
    check_config(replace(CONFIG, group=group, on_exhausted=OnExhausted.SKIP), ("group", "on_exhausted"))
    aside = Retry(mode=RetryMode.ASIDE)
    assert "the retry topic cannot have the name" in _fault("group", group=group, retry=aside, dead_letters="dead")


def test_dead_letters_do_not_go_to_the_retry_topic() -> None:
    assert "which is the retry topic" in _fault(retry=Retry(mode=RetryMode.ASIDE), dead_letters="orders.billing.retry")


def test_exactly_once_needs_records_that_do_not_overtake_each_other() -> None:
    once = Guarantee.EXACTLY_ONCE
    assert "the order by shard only" in _fault("guarantee", guarantee=once, order=Order.KEY)
    for mode in (Acknowledgement.EXPLICIT, Acknowledgement.EITHER):
        assert "automatic acknowledgement only" in _fault("guarantee", guarantee=once, acknowledgement=mode)
    assert "retries in-order only" in _fault("guarantee", guarantee=once, retry=Retry(mode=RetryMode.ASIDE))
    check_config(replace(CONFIG, guarantee=once, order=Order.SHARD, batch_size=5), ("guarantee", "order"))


def test_transactions_of_exactly_once_are_short() -> None:
    once = Guarantee.EXACTLY_ONCE
    assert "the commit interval is at most 20s" in _fault("guarantee", guarantee=once, commit_interval=20.1)
    check_config(replace(CONFIG, guarantee=once, commit_interval=20.0), ("guarantee",))
    check_config(replace(CONFIG, commit_interval=20.1), ("commit_interval",))
