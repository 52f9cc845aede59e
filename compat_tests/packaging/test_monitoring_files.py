"""The alert rules and the dashboard of deploy/ are valid, and name only metrics that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import promql_parser
import pytest
import yaml
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from kafka.admin import KafkaAdminClient, NewTopic

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "tailrace-alerts.yaml"
SCRAPE = ROOT / "deploy" / "prometheus" / "scrape.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "tailrace.json"
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
GRID_COLUMNS = 24

_METRIC = re.compile(r"\b((?:tailrace|process)_\w+)")
_DESCRIBED = re.compile(r"`((?:tailrace|process)_\w+)`")
_ENDINGS = re.compile(r"_(total|bucket|count|sum)$")
_RULE_KEYS = {"alert", "expr", "for", "labels", "annotations"}


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return panels


def _queries() -> Iterator[str]:
    for rule in _rules():
        yield rule["expr"]
    for panel in _panels():
        for target in panel.get("targets", []):
            # Grafana replaces its variables before it asks.
            yield target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


@pytest.mark.parametrize("query", sorted(set(_queries())))
def test_a_query_is_valid_and_names_metrics_that_the_reference_describes(query: str) -> None:
    promql_parser.parse(query)
    named = {_ENDINGS.sub("", name) for name in _METRIC.findall(query)}
    assert named or query.startswith("up{")
    described = {_ENDINGS.sub("", name) for name in _DESCRIBED.findall(REFERENCE)}
    assert named <= described, named - described


def test_every_metric_of_a_query_has_the_name_that_servers_export(tmp_path: Path) -> None:
    """Counters end in `_total` there. Under another name an alert would never fire."""
    server = Server(tmp_path, "up", READY_LINE)
    command = tailrace("up", "--data", str(tmp_path / "data"), "--public", "127.0.0.1:0", *FREE_PORTS)
    bootstrap = server.start([*command, "--metrics", "127.0.0.1:0", "--log-format", "json"])[1]
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic("orders", 1, 1)])
        admin.close()
        events = [json.loads(line) for line in server.errors().splitlines()]
        addresses = [event["address"] for event in events if event["event"] == "metrics_served"]
        assert len(addresses) == 2  # of the SC and of the SPU
        pages = [urlopen(f"http://{address}/metrics", timeout=30).read().decode() for address in addresses]
    finally:
        server.kill()
    exported = set(re.findall(r"^(\w+)", "".join(pages), re.MULTILINE))
    exported |= {f"{name}_bucket" for name in re.findall(r"^# TYPE (\w+) histogram", "".join(pages), re.MULTILINE)}
    exported |= {f"{name}_count" for name in re.findall(r"^# TYPE (\w+) histogram", "".join(pages), re.MULTILINE)}
    typed = set(re.findall(r"^# TYPE (\w+)", "".join(pages), re.MULTILINE))
    named = {name for query in _queries() for name in _METRIC.findall(query)}
    assert named <= exported | typed, named - exported - typed


def test_each_rule_has_a_name_a_severity_and_a_sentence() -> None:
    rules = _rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= _RULE_KEYS
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))


def test_everything_that_the_reference_alerts_on_has_a_rule() -> None:
    section = REFERENCE.partition("### What to alert on")[2].partition("### Watching groups")[0]
    wanted = set(_DESCRIBED.findall(section)) - {"tailrace_lost_writes"}  # it has no threshold that fits all clusters
    ruled = {_ENDINGS.sub("", name) for rule in _rules() for name in _METRIC.findall(rule["expr"])}
    assert wanted <= ruled, wanted - ruled


def test_the_scrape_file_loads_the_rules() -> None:
    scrape = yaml.safe_load(SCRAPE.read_text())
    assert scrape["rule_files"] == [ALERTS.name]
    (job,) = scrape["scrape_configs"]
    assert f'job="{job["job_name"]}"' in ALERTS.read_text()


def test_the_panels_of_the_dashboard_fill_its_grid_without_overlap() -> None:
    panels = _panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + column, place["y"] + line) for column in range(place["w"]) for line in range(place["h"])}
        assert max(column for column, _ in cells) < GRID_COLUMNS
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len(taken) == GRID_COLUMNS * max(line + 1 for _, line in taken)
