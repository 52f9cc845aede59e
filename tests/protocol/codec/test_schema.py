from tailrace.protocol.codec.schema import parse, snake_case


def test_names_become_snake_case() -> None:
    names = ["MaxWaitMs", "ISRNodes", "TopicId", "UseV2Format", "KRaftVersion", "Name"]
    assert [snake_case(name) for name in names] == [
        "max_wait_ms",
        "isr_nodes",
        "topic_id",
        "use_v2_format",
        "k_raft_version",
        "name",
    ]


def test_structs_come_after_those_they_are_made_of_and_common_ones_once() -> None:
    message = parse(
        """{ "apiKey": 3, "name": "PingResponse", "validVersions": "0-1", "flexibleVersions": "none",
          "commonStructs": [ { "name": "Leaf", "versions": "0+", "fields": [] } ],
          "fields": [
            { "name": "Branches", "type": "[]Branch", "versions": "0+", "fields": [
              { "name": "Leaves", "type": "[]Leaf", "versions": "1+" } ] },
            { "name": "Fallen", "type": "Leaf", "versions": "0+", "nullableVersions": "0+", "default": "null" } ] }"""
    )
    assert [struct.name for struct in message.structs] == ["Leaf", "Branch"]
    assert [(field.name, field.kind, field.is_array) for field in message.root.fields] == [
        ("branches", "Branch", True),
        ("fallen", "Leaf", False),
    ]
