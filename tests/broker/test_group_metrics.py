from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from tailrace.broker.group_gauges import GroupGauges
from tailrace.broker.group_metrics import families
from tailrace.broker.groups.counts import GroupCounts
from tailrace.broker.groups.group import GroupKind
from tailrace.broker.groups.lag import Lag
from tailrace.server.metrics import render

Sample = tuple[str, frozenset[tuple[str, str]]]


def _scraped(counts: GroupCounts, gauges: GroupGauges) -> dict[Sample, float]:
    text = render(lambda: families(counts, gauges)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _plain(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def test_what_is_counted_of_groups_is_scraped() -> None:
    scraped = _scraped(GroupCounts(1, 2, 3, 4, 0.5), GroupGauges())
    assert scraped == {
        _plain("tailrace_group_rebalances_total"): 1,
        _plain("tailrace_committed_offsets_total"): 2,
        _plain("tailrace_expired_offsets_total"): 3,
        _plain("tailrace_group_loads_total"): 4,
        _plain("tailrace_group_load_seconds_total"): 0.5,
    }


def test_what_groups_are_is_scraped() -> None:
    states = Counter({(GroupKind.CONSUMER, "Stable"): 2, (GroupKind.CLASSIC, "Empty"): 1})
    scraped = _scraped(GroupCounts(), GroupGauges(states, [('a "b"', 3)]))
    assert scraped[_plain("tailrace_groups", type="consumer", state="Stable")] == 2
    assert scraped[_plain("tailrace_groups", type="classic", state="Empty")] == 1
    assert scraped[_plain("tailrace_group_members", group='a "b"')] == 3


def test_what_is_not_known_of_a_lag_is_not_told() -> None:
    gauges = GroupGauges(
        lags=[Lag("g", "t", 4, 9, 2, 1.5), Lag("g", "t", 5, 9, 2, None), Lag("g", "t", 6, 9, None, None)]
    )
    scraped = _scraped(GroupCounts(), gauges)
    here = [{"group": "g", "topic": "t", "partition": str(number)} for number in (4, 5, 6)]
    assert [scraped[_plain("tailrace_group_committed_offset", **each)] for each in here] == [9, 9, 9]
    assert [scraped.get(_plain("tailrace_group_lag_records", **each)) for each in here] == [2, 2, None]
    assert [scraped.get(_plain("tailrace_group_lag_seconds", **each)) for each in here] == [1.5, None, None]
