"""Everything that the documents name exists: files, flags, commands, settings, metrics, modules."""

import re
import shlex
from pathlib import Path

import pytest
from architecture_map import written
from product import PACKAGES, ROOT

from tailrace.broker.descriptions.replica_counts import ReplicaCounts
from tailrace.broker.descriptions.spu_metrics import SpuGauges, render_spu_metrics, spu_series
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cli.examples import EXAMPLES
from tailrace.cli.main import _COMMANDS, parse
from tailrace.cli.serving.effective_settings import KINDS
from tailrace.cli.serving.given_settings import ALL_NAMES, GivenSettings
from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.config_definitions import text_of
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.controller import sc_metrics as sc_metrics
from tailrace.controller.workflow.workflow import WorkflowCounts
from tailrace.pipeline.audit.audit_report import audit_families
from tailrace.pipeline.lag.lag_metrics import LagCounters, LagFigures, lag_families
from tailrace.protocol.apis import API_TABLE
from tailrace.server.metric_text import render
from tailrace.trigger.replica.replica_metrics import ReplicaGauges, ReplicaMetrics, replica_families

PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "compat_tests").glob("*.md")]
)

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _text(page: str) -> str:
    return (ROOT / page).read_text()


def _anchors(page: Path) -> set[str]:
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in _HEADING.findall(page.read_text())
    }


def _commands() -> list[str]:
    lines = (
        line.strip().removeprefix("$ ")
        for page in PAGES
        for block in _CODE_BLOCK.findall(_text(page))
        for line in block.splitlines()
    )
    return sorted({line for line in lines if line.startswith("tailrace ")})


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    for link in _LINK.findall(_CODE_BLOCK.sub("", _text(page))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page} links to {link}"
        if anchor:
            assert anchor in _anchors(target), f"{page} links to {link}"


@pytest.mark.parametrize("command", _commands())
def test_commands_are_ones_that_tailrace_knows(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    redirected = next((number for number, word in enumerate(words) if word[:1] in ("|", "<", ">")), None)
    assert parse(words[:redirected]).run


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"`make ([a-z-]+)", _text(page))
        named += re.findall(r"^make ([a-z-]+)", "".join(_CODE_BLOCK.findall(_text(page))), re.MULTILINE)
        assert set(named) <= targets, page


def test_every_flag_of_the_servers_is_described() -> None:
    page = _text("docs/reference.md")
    commands = (["up"], ["serve", "sc"], ["serve", "spu"])
    flags = {flag for command in commands for flag in vars(parse(command)) if flag != "run"}
    described = {flag.replace("-", "_") for flag in re.findall(r"^\| `--([a-z-]+)", page, re.MULTILINE)}
    assert described == flags
    for flag in flags - {"set", "config", "until_input_ends"}:
        assert f"`TAILRACE_{flag.upper()}`" in page


def test_described_configs_have_the_described_defaults() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \|(?: `([a-z.]+)` \|)? (-?\d+) \|", _text("docs/reference.md"), re.MULTILINE)
    assert len(rows) > 10
    for name, synonym, default in rows:
        for each, table in ((name, TOPIC_CONFIGS if synonym else BROKER_CONFIGS), (synonym, BROKER_CONFIGS)):
            if each:
                assert text_of(table[each].default) == default, each


def test_a_config_described_as_without_effect_is_used_nowhere() -> None:
    source = "".join(
        path.read_text()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if not path.name.endswith("_config_table.py")
    )
    for table in (TOPIC_CONFIGS, BROKER_CONFIGS):
        for name, definition in table.items():
            assert definition.honoured or f'"{name}"' not in source, name


def test_every_metric_is_described_and_no_other() -> None:
    metrics = BrokerMetrics()
    gauges = SpuGauges([], 0.0, counts=ReplicaCounts())
    scraped = render_spu_metrics(metrics, gauges).decode() + "".join(spu_series(gauges))
    scraped += sc_metrics.render(sc_metrics.ScMetrics(API_TABLE), WorkflowCounts(), sc_metrics.ScGauges()).decode()
    scraped += render(lambda: replica_families("billing", ReplicaMetrics(), ReplicaGauges())).decode()
    scraped += render(lambda: lag_families(LagCounters(), LagFigures())).decode()
    scraped += render(lambda: audit_families([], None)).decode()
    exist = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (tailrace_\w+)", scraped, re.MULTILINE)}
    described = set(re.findall(r"`(tailrace_\w+)`", _text("docs/reference.md")))
    assert described == exist


def test_every_logged_event_is_described_and_no_other() -> None:
    source = "".join(
        path.read_text()
        for folder in ("server", "broker", "controller", "client", "trigger", "pipeline", "cli", "testing")
        for path in (ROOT / folder).rglob("*.py")
    )
    logged = set(re.findall(r"\.(?:info|warning|error)\(\s*\"([a-z]+_[a-z_]+)\"", source))
    page = _text("docs/reference.md").partition("## Logs")[2].partition("## Metrics")[0]
    described = set(re.findall(r"`([a-z]+_[a-z_]+)`", page))
    assert described == logged


def test_the_map_says_what_the_docstrings_say() -> None:
    page = _text("docs/ARCHITECTURE.md")
    assert page == written(page), "run `make docs`"


def test_the_path_of_a_record_names_files_that_exist() -> None:
    path = _text("docs/ARCHITECTURE.md").partition("## The path of one record")[2].partition("## How a change")[0]
    named = re.findall(r"`([a-z_/]+\.py)\b", path)
    assert len(named) > 15
    for each in named:
        assert (ROOT / each).is_file(), each


def test_every_dependency_is_explained() -> None:
    page = _text("docs/dependencies.md")
    project = (ROOT / "pyproject.toml").read_text()
    for name in re.findall(r'^    "([a-z0-9-]+)(?:\[[^\]]*\])?[>=]=', project, re.MULTILINE):
        assert re.search(rf"^\|.*\b{re.escape(name)}\b.*\|.*\|$", page, re.MULTILINE), name


def test_committed_text_names_no_machine() -> None:
    """Paths and hosts of a developer's machine mean nothing to others."""
    for page in PAGES:
        for path in re.findall(r"(?<![\w.$<>{}-])/(?:work|root|tmp|home|opt)/\S*", _text(page)):
            pytest.fail(f"{page} names {path}")


def test_each_command_has_an_example_in_its_help() -> None:
    """The examples are in cli/examples.py; tests/cli/test_examples.py parses them."""
    assert set(EXAMPLES) == set(_COMMANDS), "add the command to EXAMPLES in cli/examples.py"
    assert all(EXAMPLES.values())


def test_every_setting_of_a_server_can_be_checked() -> None:
    """`tailrace config check` shows all settings, and no server warns of the environment variable of one of them."""
    assert frozenset().union(*(kind.names for kind in KINDS.values())) == ALL_NAMES, "see cli/serving/given_settings.py"
    for kind in KINDS.values():
        values = kind.read(GivenSettings({"data": "/d", **kind.placeholders}, []))
        assert set(values) == kind.names, "see cli/serving/effective_settings.py"


def test_the_pages_name_the_releases_of_pyspark_that_tests_run() -> None:
    makefile, project = ((ROOT / name).read_text() for name in ("Makefile", "pyproject.toml"))
    releases = re.findall(r"^NEWEST_PYSPARK := (.+)$", makefile, re.M) + re.findall(r'"pyspark==(.+)"', project)
    assert len(releases) == 2
    for page in ("docs/pipeline.md", "docs/spark.md"):
        text = (ROOT / page).read_text()
        assert [each for each in releases if each not in text] == [], page
