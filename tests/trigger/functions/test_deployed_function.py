from pathlib import Path

import pytest

from tailrace.controller.objects.object_documents import document_of, parse_object
from tailrace.trigger.config.trigger_config import Retry, SeekTo, TriggerConfig
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.deployed_function import DeployedFunction, deployed_document, read_deployed
from tailrace.trigger.functions.function_source import FunctionSource

CONFIG = TriggerConfig(
    name="bill",
    topic="orders",
    group="billing",
    replicas=3,
    min_replicas=1,
    seek_to=SeekTo.EARLIEST,
    retry=Retry(attempts=7, backoff=(0.5, 2.0)),
    environment={"A": "b"},
)


def test_replicas_read_what_was_deployed_although_the_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "billing.py"
    path.write_text("def handler(context, event): ...\n")
    document = deployed_document(CONFIG, FunctionSource(str(path), "handler"), "/usr/bin/python3")
    path.write_text("something else")
    stored = parse_object("trigger", document)
    snapshot = FunctionSource(str(path), "handler", "def handler(context, event): ...\n", str(tmp_path))
    assert read_deployed(document_of(stored)) == DeployedFunction(CONFIG, snapshot, 1)


def test_replicas_follow_the_number_that_a_command_has_set(tmp_path: Path) -> None:
    source = FunctionSource("/billing.py", None, "")
    document = document_of(parse_object("trigger", deployed_document(CONFIG, source, None)))
    document["spec"] |= {"replicas": 9}  # type: ignore[operator]
    assert read_deployed(document).config.replicas == 9


def test_a_document_of_another_version_is_refused() -> None:
    with pytest.raises(TriggerConfigError, match=r"^the stored trigger cannot be read: KeyError"):
        read_deployed({"name": "bill", "spec": {}})
