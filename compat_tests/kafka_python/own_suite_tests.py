"""Lists which tests of kafka-python's own suite run, and why the others do not.

The list is compared with the suite, so that a new version cannot change its tests unnoticed.
"""

RUN = {
    "test_admin_integration.py": (
        "test_alter_partition_reassignments",
        "test_alter_replica_log_dirs",
        "test_create_delete_topics",
        "test_create_partitions",
        "test_delete_groups",
        "test_delete_groups_with_errors",
        "test_delete_records",
        "test_delete_records_with_errors",
        "test_describe_configs_broker_resource_returns_configs",
        "test_describe_configs_invalid_broker_id_raises",
        "test_describe_configs_mixed_resources_returns_configs",
        "test_describe_configs_topic_resource_returns_configs",
        "test_describe_group_exists",
        "test_describe_log_dirs",
        "test_describe_topic_partitions",
        "test_describe_topic_partitions_pagination",
        "test_elect_leaders",
        "test_list_config_resources",
        "test_list_partition_offsets",
        "test_list_partition_reassignments",
    ),
    "test_consumer_integration.py": (
        "test_consumer",
        "test_consumer_topics",
        "test_group",
        "test_heartbeat_thread",
        "test_kafka_consumer",
        "test_kafka_consumer__blocking",
        "test_kafka_consumer__offset_commit_resume",
        "test_kafka_consumer_max_bytes_one_msg",
        "test_kafka_consumer_max_bytes_simple",
        "test_kafka_consumer_offsets_for_time",
        "test_kafka_consumer_offsets_for_times_errors",
        "test_kafka_consumer_offsets_search_many_partitions",
        "test_kafka_consumer_position_after_seek_to_end",
        "test_kafka_consumer_unsupported_encoding",
        "test_kafka_version_infer",
        "test_paused",
    ),
    "test_producer_integration.py": (
        "test_end_to_end",
        "test_idempotent_producer",
        "test_idempotent_producer_high_throughput",
        "test_idempotent_producer_max_in_flight",
        "test_kafka_producer_proper_record_metadata",
        "test_transactional_producer_messages",
        "test_transactional_producer_offsets",
    ),
}

NOT_SERVED_YET = {
    "test_admin_integration.py::test_describe_metadata_quorum": "DescribeQuorum: there is no Raft log for metadata",
}
"""Tests that only Apache Kafka passes, with the reasons."""

RUN_SECURED = (
    "test_admin_integration.py::test_create_describe_delete_acls",
    "test_sasl_integration.py::test_admin",
    "test_sasl_integration.py::test_client",
    "test_sasl_integration.py::test_produce_and_consume",
    "test_ssl_integration.py::TestSSLConnection::test_legacy_kafka_client_ssl",
    "test_ssl_integration.py::TestSSLConnection::test_ssl_handshake",
)
"""Tests that need logins, TLS or access rules."""

LEFT_OUT = {
    "test_consumer_integration.py::test_kafka_consumer_offsets_for_time_old": "for brokers before 0.10.1",
}
"""Tests that the suite skips."""


def run() -> list[str]:
    return [f"{module}::{test}" for module, tests in RUN.items() for test in tests]
