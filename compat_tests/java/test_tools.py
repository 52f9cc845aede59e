"""Apache Kafka's stock tools work, and with them the Java client in its newest protocol versions."""

import json
import uuid

import pytest
from clients.java import ToolFailed, run_tool
from confluent_kafka.admin import AdminClient


@pytest.fixture
def tool(bootstrap):
    def run(name, *arguments, **more):
        return run_tool(name, "--bootstrap-server", bootstrap, *arguments, **more)

    return run


def test_lines_typed_into_the_console_producer_come_out_of_the_console_consumer(topic, tool):
    lines = "".join(f"key{number}:value {number}\n" for number in range(500))
    properties = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool("console-producer", "--topic", topic, *properties, standard_input=lines)
    printed = tool(
        *("console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "500"),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )
    assert printed == lines
    tail = tool("console-consumer", "--topic", topic, "--partition", "0", "--offset", "498", "--max-messages", "2")
    assert tail == "value 498\nvalue 499\n"


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_the_java_client_compresses(topic, tool, compression):
    lines = "".join(f"{number} " * 50 + "\n" for number in range(200))
    tool("console-producer", "--topic", topic, "--compression-codec", compression, standard_input=lines)
    printed = tool(
        *("console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "200")
    )
    assert printed == lines


def test_topics_are_created_described_altered_and_deleted(tool):
    topic = f"java-{uuid.uuid4().hex[:8]}"
    tool("topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=60000")
    with pytest.raises(ToolFailed, match="TopicExistsException"):
        tool("topics", "--create", "--topic", topic)
    described = tool("topics", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described and "retention.ms=60000" in described
    assert described.count("Leader: ") == 3
    tool("topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool("topics", "--describe", "--topic", topic)
    tool("topics", "--delete", "--topic", topic)
    assert topic not in tool("topics", "--list").split()


def test_configs_are_altered_and_described(topic, tool):
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool("configs", "--alter", *entity, "--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]")
    described = tool("configs", "--describe", *entity)
    assert "max.message.bytes=2000" in described and "cleanup.policy=compact,delete" in described
    tool("configs", "--alter", *entity, "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in tool("configs", "--describe", *entity)
    assert "segment.bytes=1073741824" in tool("configs", "--describe", "--all", *entity)
    with pytest.raises(ToolFailed, match=r"retention\.ms"):
        tool("configs", "--alter", *entity, "--add-config", "retention.ms=often")


def test_every_broker_config_is_described(tool, bootstrap):
    (broker, *_) = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers
    described = tool("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", str(broker))
    assert "num.partitions=" in described


def test_offsets_and_deleted_records(topic, tool, tmp_path):
    tool("console-producer", "--topic", topic, standard_input="line\n" * 10)
    assert tool("get-offsets", "--topic", topic).split() == [f"{topic}:0:10"]
    assert tool("get-offsets", "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:0"]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))
    assert "low_watermark: 4" in tool("delete-records", "--offset-json-file", str(plan))
    assert tool("get-offsets", "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:4"]
    (newest,) = tool("get-offsets", "--topic", topic, "--time", "max-timestamp").split()
    assert newest.startswith(f"{topic}:0:")


def test_log_dirs_list_the_partition(topic, tool):
    tool("console-producer", "--topic", topic, standard_input="x" * 1000 + "\n")
    printed = tool("log-dirs", "--describe", "--topic-list", topic)
    report = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    (directory,) = report["brokers"][0]["logDirs"]
    (found,) = directory["partitions"]
    assert found["partition"] == f"{topic}-0" and found["size"] > 1000 and directory["error"] is None


def test_requests_for_acls_are_told_that_there_is_no_authorizer(topic, tool):
    new = ("--add", "--allow-principal", "User:somebody", "--operation", "Read", "--topic", topic)
    for words in (("--list",), new, ("--remove", "--force", "--topic", topic)):
        with pytest.raises(ToolFailed, match="SecurityDisabledException"):
            tool("acls", *words)


def test_the_broker_lists_the_versions_that_it_supports(tool):
    printed = tool("broker-api-versions")
    for api in ("Produce(0)", "Fetch(1)", "ListOffsets(2)", "Metadata(3)", "ApiVersions(18)", "InitProducerId(22)"):
        assert any(api in line and "usable" in line for line in printed.splitlines()), api


def test_the_cluster_has_an_id(bootstrap):
    assert "Cluster ID: " in run_tool("cluster", "cluster-id", "--bootstrap-server", bootstrap)


def test_the_performance_producer_delivers_all(topic, tool):
    counts = ("--num-records", "20000", "--record-size", "500", "--throughput", "-1")
    printed = tool("producer-perf-test", "--topic", topic, *counts, "--command-property", "acks=all")
    assert "20000 records sent" in printed
    assert tool("get-offsets", "--topic", topic).split() == [f"{topic}:0:20000"]
