"""The page for people who come from Apache Kafka names commands, settings and files that exist."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tailrace.cli.main import parse
from tailrace.cli.serving.given_settings import GivenSettings
from tailrace.cli.serving.up import read_settings
from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coming-from-kafka.md").read_text()


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`(tailrace \w+ [^`]+)`", PAGE))))
def test_a_command_in_the_text_is_one_that_tailrace_knows(command: str) -> None:
    assert parse(shlex.split(command)[1:]).run


def test_broker_configs_in_the_text_exist() -> None:
    names = re.findall(r"--set ([a-z.]+)=", PAGE)
    names += [name.lower().replace("_", ".") for name in re.findall(r"TAILRACE_BROKER_(\w+)", PAGE)]
    assert len(names) > 3
    assert set(names) <= set(BROKER_CONFIGS)


def test_the_service_for_compose_has_valid_settings() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    service = yaml.safe_load(text)["services"]["kafka"]
    assert parse(service["command"]).metrics == "0.0.0.0:9008"
    given = GivenSettings({"data": "/data", "public": service["environment"]["TAILRACE_PUBLIC"]}, [])
    listeners = read_settings(given).managed.listeners
    assert [str(each.address) for each in listeners] == ["0.0.0.0:29092", "0.0.0.0:9092"]
    assert [str(each.advertised) for each in listeners] == ["kafka:29092", "127.0.0.1:9092"]
    assert "AS tailrace" in (ROOT / "Dockerfile").read_text() and service["build"]["target"] == "tailrace"
