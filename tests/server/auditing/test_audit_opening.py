"""The audit log is opened as the settings say."""

import pytest
import structlog
import trio
from audit_logs import disk
from simulation.network import MemoryNetwork
from spus import SteadyClock

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import SettingsError
from tailrace.server.auditing.audit_opening import OpenAudit, open_audit
from tailrace.server.request_context import ClientIdentity


async def _opened(**changes: str) -> OpenAudit | None:
    files = disk()
    files.write_private("/data/key.pem", b"x")
    seams = Seams(MemoryNetwork(), files, SteadyClock(), RandomChance(1))
    configs = BrokerConfigs({f"audit.log.{name.replace('_', '.')}": text for name, text in changes.items()})
    return await open_audit(configs, "spu-1", "/data", seams, structlog.get_logger(), lambda: None)


async def test_it_is_off_by_default() -> None:
    assert await _opened() is None
    assert await _opened(enable="true", failure_policy="stop") is not None


async def test_settings_without_effect_and_wrong_keys_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"audit.log.file.bytes has no effect, because audit.log.enable is not"):
        await _opened(file_bytes="70000")
    with pytest.raises(SettingsError, match=r"audit.log.signing.key.location: /data/key.pem cannot sign"):
        await _opened(enable="true", signing_key_location="/data/key.pem")
    with pytest.raises(SettingsError, match="cannot be opened"):
        await _opened(enable="true", signing_key_location="/data/none.pem")


async def test_it_may_be_copied_to_a_topic() -> None:
    opened = await _opened(enable="true", topic="audit")
    assert opened is not None and opened.topic is not None and opened.topic.topic == "audit"
    for name in ("a:b", "__consumer_offsets"):
        with pytest.raises(SettingsError, match=r"audit.log.topic.*takes the name of a topic that is not internal"):
            await _opened(enable="true", topic=name)


@pytest.mark.parametrize(("policy", "stops"), [("continue", 0), ("stop", 1)])
async def test_a_server_goes_on_or_stops_if_the_log_cannot_be_written(
    autojump_clock: object, policy: str, stops: int
) -> None:
    files, stopped = disk(), list[None]()
    configs = BrokerConfigs({"audit.log.enable": "true", "audit.log.failure.policy": policy})
    seams = Seams(MemoryNetwork(), files, SteadyClock(), RandomChance(1))
    opened = await open_audit(configs, "sc", "/data", seams, structlog.get_logger(), lambda: stopped.append(None))
    assert opened is not None and opened.topic is None
    trail = opened.trail
    async with trio.open_nursery() as nursery:
        await nursery.start(trail.run)
        files.room_bytes = 0
        trail.changed(ClientIdentity("192.0.2.1:5"), None, "CreateTopics", "TOPIC:a")
        await trio.sleep(1)
        assert len(stopped) == stops
        nursery.cancel_scope.cancel()
