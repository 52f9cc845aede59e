import base64
import os
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tailrace.cli.command_parser import CommandParser
from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.triggers.trigger_options import (
    GivenTrigger,
    add_function,
    add_settings,
    flag_layer,
    flag_of,
    given_trigger,
)
from tailrace.trigger.config.nuclio_fields import (
    ATTRIBUTE_SETTINGS,
    ATTRIBUTE_SPECIAL,
    RETRY_ATTRIBUTES,
    SPEC_SPECIAL,
    TRIGGER_SETTINGS,
    TRIGGER_SPECIAL,
)
from tailrace.trigger.config.trigger_config import RetryMode, SeekTo
from tailrace.trigger.config.trigger_settings import SETTINGS

FUNCTION = """
    from tailrace.trigger import trigger, Retry

    @trigger("orders", group="billing", max_workers=2, retry=Retry(attempts=3))
    def bill(context, event): ...
"""
YAML = """
    metadata: {name: billing}
    spec:
      handler: main:handler
      triggers:
        t:
          kind: v3ioStream
          url: http://v3io-webapi:8081/c/clicks@cg0
          maxWorkers: 3
          partitions: []
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "billing.py").write_text(dedent(FUNCTION))
    (tmp_path / "main.py").write_text("def handler(context, event): ...\n")
    (tmp_path / "function.yaml").write_text(dedent(YAML))
    return tmp_path


def _given(*words: str) -> GivenTrigger:
    parser = CommandParser("tailrace trigger run", "")
    add_function(parser)
    add_settings(parser)
    return given_trigger(parser.parse_all(words), environment={})


def _error(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        _given(*words)
    return str(caught.value)


def test_the_decorator_alone_is_enough(directory: Path) -> None:
    given = _given(str(directory / "billing.py"))
    assert (given.config.name, given.config.topic, given.config.group) == ("bill", "orders", "billing")
    assert given.config.retry.attempts == 3
    assert given.source.handler == "bill"


def test_a_file_overrides_the_decorator_and_flags_override_both(directory: Path) -> None:
    words = (str(directory / "billing.py:bill"), "--config", str(directory / "function.yaml"))
    config = _given(*words).config
    assert (config.topic, config.group, config.max_workers, config.retry.attempts) == ("clicks", "cg0", 3, 3)
    config = _given(*words, "--topic", "copies", "--max-workers", "4").config
    assert (config.topic, config.group, config.max_workers) == ("copies", "cg0", 4)


def test_every_setting_has_a_flag(directory: Path) -> None:
    parser = CommandParser("tailrace trigger run", "")
    add_settings(parser)
    words = [
        word for name in SETTINGS for word in ((flag_of(name),) if name == "split_batch" else (flag_of(name), "x"))
    ]
    assert set(flag_layer(parser.parse_all(words))) == set(SETTINGS)
    assert set(flag_layer(parser.parse_all([]))) == set()


def test_the_reference_lists_every_setting() -> None:
    page = (Path(__file__).parents[3] / "docs/reference.md").read_text()
    section = page.partition("## Settings of a trigger")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (`.+?) \|", section, re.MULTILINE)
    listed = {names.split("`")[1]: names.split("`")[3:4] for names, _ in rows}
    assert set(listed) == set(SETTINGS)
    other_flags = {name: [flag_of(name)] for name in SETTINGS if flag_of(name) != f"--{name.replace('_', '-')}"}
    assert {name: flags for name, flags in listed.items() if flags} == other_flags
    fields = {field.lower() for _, column in rows for field in re.findall(r"`(?:[a-zA-Z]+\.)?([a-zA-Z]+)`", column)}
    attributes = {*ATTRIBUTE_SETTINGS, *ATTRIBUTE_SPECIAL, *RETRY_ATTRIBUTES}
    others = {*TRIGGER_SETTINGS, *TRIGGER_SPECIAL, *SPEC_SPECIAL, "name", "batchsize", "timeout", "user", "password"}
    assert fields <= attributes | others


def test_flags_of_all_kinds(directory: Path) -> None:
    config = _given(
        str(directory / "main.py"),
        *("--topic", "orders", "--name", "mine", "--replicas", "4", "--min-replicas", "2", "--seek-to", "earliest"),
        *("--session-timeout", "20s", "--retry-mode", "aside", "--retry-backoff", "1s..2s"),
        *("--env", "A=1", "--env", "B=2", "--bootstrap", "one:9092,two:9092", "--worker-memory-max", "64Mi"),
    ).config
    assert (config.name, config.group, config.replicas, config.min_replicas) == ("mine", "mine", 4, 2)
    assert (config.seek_to, config.session_timeout) == (SeekTo.EARLIEST, 20.0)
    assert (config.retry.mode, config.retry.backoff) == (RetryMode.ASIDE, (1.0, 2.0))
    assert config.environment == {"A": "1", "B": "2"}
    assert config.brokers == ("one:9092", "two:9092")
    assert config.worker_memory_max == 64 * 1024**2


@pytest.mark.parametrize("target", ["function.yaml", ""])
def test_a_directory_or_a_file_of_nuclio_stands_for_its_handler(directory: Path, target: str) -> None:
    given = _given(str(directory / target))
    assert given.source.path == str(directory / "main.py")
    assert (given.config.name, given.config.topic) == ("billing", "clicks")
    (warning,) = given.warnings
    assert "line 10: partitions is deprecated and ignored" in warning


def test_the_source_inside_a_file_of_nuclio_needs_no_other_file(directory: Path) -> None:
    code = base64.b64encode(b"def handler(context, event): return 7").decode()
    (directory / "main.py").unlink()
    (directory / "function.yaml").write_text(
        dedent(YAML).replace("spec:\n", f"spec:\n  build: {{functionSourceCode: {code}}}\n")
    )
    assert _given(str(directory)).function.call(None, None) == 7


def test_comments_of_nuclio_configure_the_function(directory: Path) -> None:
    comments = "".join(f"# {line}\n" for line in ("function.yaml:" + dedent(YAML).replace("\n", "\n  ")).splitlines())
    (directory / "main.py").write_text(f"# @nuclio.configure\n{comments}\ndef handler(context, event): ...\n")
    given = _given(str(directory / "main.py"))
    assert (given.config.name, given.config.topic) == ("billing", "clicks")
    assert f"{directory / 'main.py'}: line 11: partitions is deprecated" in given.warnings[0]


def test_loading_leaves_the_search_path_as_it_was(directory: Path) -> None:
    before = list(sys.path)
    _given(str(directory / "billing.py"))
    assert sys.path == before


def test_errors_name_the_flag_or_the_file(directory: Path) -> None:
    billing, config = str(directory / "billing.py"), str(directory / "function.yaml")
    assert _error(billing, "--max-workers", "0") == "--max-workers: 0 is not a whole number from 1 to 256"
    assert _error(billing, "--heartbeat-interval", "9s").startswith("--heartbeat-interval: the heartbeat interval of")
    assert _error(f"{billing}:bil") == f"{billing}: there is no function bil; did you mean bill?"
    assert _error(str(directory / "none.py")).endswith("none.py: the file cannot be read: No such file or directory")
    assert _error(str(directory / "none.yaml")).endswith("none.yaml: No such file or directory")
    assert _error(config, "--config", config) == f"--config {config}: {config} is the configuration already"
    assert _error(billing, "--trigger", "t").startswith("--trigger has no effect without a configuration file")
    assert _error(str(directory / "main.py")).startswith(f"{directory / 'main.py'}: line 1: the topic is missing")
    assert "line 2: there is no field trigers" in _error(_broken(directory, "spec:\n", "trigers: 5\nspec:\n"))
    assert _error(_broken(directory, "main:handler", "a b")).endswith(
        "handler: a b is not MODULE:FUNCTION, such as main:handler"
    )
    assert "the field handler is missing" in _error(_broken(directory, "  handler: main:handler\n", ""))


def _broken(directory: Path, old: str, new: str) -> str:
    path = directory / "broken.yaml"
    path.write_text(dedent(YAML).lstrip("\n").replace(old, new))
    return str(path)


def test_a_file_may_read_the_variables_of_the_trigger_while_it_is_loaded(directory: Path) -> None:
    path = directory / "reading.py"
    path.write_text("import os\nWHERE = os.environ['TAILRACE_TEST_WHERE']\ndef handler(context, event): ...\n")
    with pytest.raises(UsageError, match="TAILRACE_TEST_WHERE"):
        _given(str(path), "--topic", "t")
    given = _given(str(path), "--topic", "t", "--env", "TAILRACE_TEST_WHERE=here")
    assert given.function.call.__globals__["WHERE"] == "here"
    assert "TAILRACE_TEST_WHERE" not in os.environ
