from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag.lag_metrics import LagCounters, LagFigures, lag_families
from tailrace.pipeline.lag.lag_rows import LagRow
from tailrace.server.metric_text import render


def _scrape(counters: LagCounters, figures: LagFigures) -> list[str]:
    return [line for line in render(lambda: lag_families(counters, figures)).decode().splitlines() if line[0] != "#"]


def test_each_partition_has_its_series() -> None:
    rows = [
        LagRow("billing", "g", Partition("orders", 0), 4, 10, 6, 2.5, is_active=True),
        LagRow("billing", "g", Partition("orders", 1), 3, 5, 2, None, is_active=True),
    ]
    lines = _scrape(LagCounters(commits=3, failed_commits=1), LagFigures(rows, 0.5))
    where = 'group="g",partition="0",query="billing",topic="orders"'
    assert f"tailrace_pipeline_lag_records{{{where}}} 6.0" in lines
    assert f"tailrace_pipeline_lag_seconds{{{where}}} 2.5" in lines
    assert f"tailrace_pipeline_position{{{where}}} 4.0" in lines
    assert 'tailrace_pipeline_query_active{group="g",query="billing"} 1.0' in lines
    assert "tailrace_pipeline_lag_age_seconds 0.5" in lines
    assert "tailrace_pipeline_commits_total 3.0" in lines
    assert "tailrace_pipeline_failed_commits_total 1.0" in lines
    assert len([each for each in lines if each.startswith("tailrace_pipeline_lag_seconds")]) == 1


def test_figures_that_do_not_exist_yet_are_left_out() -> None:
    lines = _scrape(LagCounters(), LagFigures())
    assert not [each for each in lines if "age" in each or "lag_records" in each]
    assert "tailrace_pipeline_failed_looks_total 0.0" in lines
