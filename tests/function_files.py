"""Files in Nuclio's shape for tests, and what is read from them."""

from textwrap import dedent

import pytest

from tailrace.trigger.config.function_yaml import FunctionFile, read_function_yaml
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.config.trigger_settings import TriggerConfigError, merge_layers

KAFKA = """\
metadata:
  name: billing
spec:
  triggers:
    myKafkaTrigger:
      kind: kafka-cluster
      numWorkers: 4
      attributes:
        initialOffset: earliest
        topics:
        - mytopic
        brokers:
        - 10.0.0.2:9092
        - 10.0.0.3:9092
        consumerGroup: my-consumer-group
"""
SHORT = """\
metadata: {name: billing}
spec:
  triggers:
    t:
      kind: v3ioStream
      url: http://v3io-webapi:8081/c/orders@g
"""


def config_of(text: str, **options: str) -> TriggerConfig:
    """Returns the configuration that a file gives alone."""
    return merge_layers([file_of(text, **options).layer], origin="f.yaml")


def file_of(text: str, **options: str) -> FunctionFile:
    """Returns what a file says."""
    return read_function_yaml(dedent(text), "f.yaml", **options)  # type: ignore[arg-type]


def error_of(text: str, **options: str) -> str:
    """Returns the error of a wrong file, which is one line."""
    with pytest.raises(TriggerConfigError) as caught:
        config_of(text, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_line(line: str, at: str = "kind: v3ioStream") -> str:
    """Returns the short file with a line after the line `at`, in the same depth."""
    lines = SHORT.splitlines()
    number = next(number for number, each in enumerate(lines) if at in each)
    depth = len(lines[number]) - len(lines[number].lstrip())
    lines[number + 1 : number + 1] = [" " * depth + each for each in line.splitlines()]
    return "\n".join(lines)


def with_attributes(line: str) -> str:
    """Returns the short file with attributes of its trigger."""
    return SHORT + "      attributes:\n" + "".join(f"        {each}\n" for each in line.splitlines())
