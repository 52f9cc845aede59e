from contextlib import closing
from pathlib import Path

import pytest
import yaml
from deployed_triggers import FUNCTION, deploy
from public_sc import ADDRESS, PublicSc, public_sc, tailrace
from running_workflow import RecordedReplicas

from tailrace.cli.triggers.export_command import exported
from tailrace.client.sc_client import ScClient
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.deployed_function import DeployedFunction, read_deployed
from tailrace.trigger.functions.function_source import FunctionSource

SETTINGS = (
    *("--max-workers", "4", "--session-timeout", "20s", "--heartbeat-interval", "5s", "--env", "MODE=test"),
    *("--access-key", "my-key", "--order", "key", "--min-replicas", "2", "--dead-letters", "dead"),
)


async def _deployed(sc: PublicSc) -> DeployedFunction:
    with closing(ScClient(sc.network, [ADDRESS])) as client:
        (document,) = await client.list_objects("trigger", ["bill"])
    return read_deployed(document)


async def test_a_deployed_trigger_becomes_a_file_that_deploys_the_same_trigger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path, *SETTINGS)
        before = await _deployed(sc)
        capsys.readouterr()
        assert await tailrace(sc.network, "trigger", "export", "bill") == 0
        text, said = capsys.readouterr()
        assert "my-key" not in text + said
        assert "set V3IO_ACCESS_KEY where you deploy it" in said
        assert {"sessionTimeout: 20s", "heartbeatInterval: 5s"} <= {line.strip() for line in text.splitlines()}

        (tmp_path / "billing.py").unlink()
        (tmp_path / "function.yaml").write_text(text.replace("sessionTimeout: 20s", "sessionTimeout: 30s"))
        monkeypatch.setenv("V3IO_ACCESS_KEY", "my-key")
        assert await tailrace(sc.network, "trigger", "deploy", str(tmp_path)) == 0
        after = await _deployed(sc)
        assert before.config.session_timeout == 20.0
        assert after.config.session_timeout == 30.0, "a file can be edited"
        assert after.revision == before.revision + 1
        (tmp_path / "function.yaml").write_text(text)
        assert await tailrace(sc.network, "trigger", "deploy", str(tmp_path)) == 0
        after = await _deployed(sc)
        assert after.config == before.config
        assert after.source.source == before.source.source == FUNCTION


async def test_an_unknown_trigger_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        assert await tailrace(sc.network, "trigger", "export", "nope") == 1
        assert "nope" in capsys.readouterr().err


def test_a_file_whose_name_cannot_be_a_module_is_called_main() -> None:
    config = TriggerConfig(name="bill", topic="orders", group="billing")
    source = FunctionSource("/a/my orders.py", "bill", "x = 1\n", "/a")
    document = exported(DeployedFunction(config, source, 1))
    assert document["spec"]["handler"] == "main:bill"
    assert yaml.safe_load(yaml.safe_dump(document)) == document
