import base64

import pytest
from function_files import SHORT, config_of, error_of, file_of, with_attributes, with_line
from msgspec.structs import replace

from tailrace.trigger.config.trigger_config import (
    SeekTo,
    TriggerConfig,
)
from tailrace.trigger.config.trigger_settings import TriggerConfigError, merge_layers

V3IO = """\
apiVersion: "nuclio.io/v1"
kind: NuclioFunction
metadata:
  name: billing
  namespace: nuclio
  labels:
    nuclio.io/project-name: shop
spec:
  description: Bills orders
  handler: main:handler
  runtime: python:3.9
  minReplicas: 3
  maxReplicas: 3
  triggers:
    stream:
      class: ""
      kind: v3ioStream
      name: stream
      url: http://v3io-webapi:8081/bigdata/my-stream@my-consumer-group
      maxWorkers: 8
      password: my-key
      attributes:
        seekTo: earliest
        readBatchSize: 64
        pollingIntervalMs: 500
        sessionTimeout: 20s
        heartbeatInterval: 5s
        sequenceNumberCommitInterval: 2s
"""


STREAM = TriggerConfig(
    name="billing",
    topic="my-stream",
    group="my-consumer-group",
    replicas=3,
    max_workers=8,
    access_key="my-key",
    seek_to=SeekTo.LATEST,
    read_batch_size=64,
    polling_interval=0.5,
)


def test_a_file_for_a_stream_of_v3io_reads_unchanged() -> None:
    file = file_of(V3IO)
    assert file.warnings == ()
    assert (file.handler, file.source) == ("main:handler", None)
    assert merge_layers([file.layer], origin="f.yaml") == replace(
        STREAM,
        seek_to=SeekTo.EARLIEST,
        session_timeout=20.0,
        heartbeat_interval=5.0,
        commit_interval=2.0,
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            with_attributes("sesionTimeout: 10s"),
            "f.yaml: line 8: there is no field sesionTimeout; did you mean sessionTimeout?",
        ),
        (with_line("maxWorker: 3"), "f.yaml: line 6: there is no field maxWorker; did you mean maxWorkers?"),
        (with_attributes("seekTo: beginning"), "f.yaml: line 8: seekTo: beginning is not earliest or latest"),
        (with_line("maxWorkers: 0"), "f.yaml: line 6: maxWorkers: 0 is not a whole number from 1 to 256"),
        (with_line("maxWorkers: 2\nnumWorkers: 3"), "f.yaml: line 7: numWorkers contradicts maxWorkers in line 6"),
        (with_line("MaxWorkers: 2\nmaxworkers: 2"), "f.yaml: line 7: maxworkers occurs twice, also as MaxWorkers"),
        (with_line("attributes: 5"), "f.yaml: line 6: attributes: 5 must have fields"),
        (
            SHORT.replace("v3ioStream", "v3iostreams"),
            "f.yaml: line 5: trigger t: there is no kind v3iostreams: expected",
        ),
        (SHORT.replace("kind: v3ioStream", "name: x"), "f.yaml: line 4: trigger t: the kind is missing: expected"),
        (
            SHORT.replace("v3ioStream", "http"),
            "f.yaml: line 4: trigger t is ignored, because its kind http reads no stream",
        ),
        (with_line("disabled: true"), "f.yaml: line 4: trigger t is ignored, because it is disabled"),
        (
            SHORT.replace("http://v3io-webapi:8081/c/orders@g", "orders"),
            "f.yaml: line 6: url: orders is not the URL of a stream",
        ),
        ("metadata: {name: x}", "f.yaml: the field spec is missing"),
        ("spec: {handler: 'a:b'}", "f.yaml: line 1: spec: the field triggers is missing"),
        ("kind: Deployment\nspec: {}", "f.yaml: line 1: kind: Deployment is not NuclioFunction"),
        ("- a", "f.yaml: ['a'] must have fields"),
        ("spec:\n  runtime: golang\n", "f.yaml: line 2: runtime: Tailrace runs functions in Python, and not in golang"),
        ("spec:\n  disable: true\n", "f.yaml: line 2: disable: the function is disabled"),
        ("spec:\n  triggers: []\n", "f.yaml: line 2: triggers must have fields: the names of triggers"),
        (
            with_attributes("topics: [a, b]"),
            "f.yaml: line 8: topics: a trigger reads one topic, and ['a', 'b'] is not one",
        ),
        (with_attributes("ackWindowSize: 5"), "f.yaml: line 8: ackWindowSize: a window of handled events"),
        (with_attributes("tls: {enable: true}"), "f.yaml: line 8: enable: triggers cannot use TLS yet"),
        (with_attributes("caCert: xyz"), "f.yaml: line 8: caCert: triggers cannot use TLS yet"),
        (with_attributes("sasl: {enable: true, mechanism: scram}"), "f.yaml: line 8: mechanism: the only mechanism"),
        (
            with_attributes("workerAllocationMode: none"),
            "f.yaml: line 8: workerAllocationMode: none is neither pool nor static",
        ),
        (
            with_line("explicitAckMode: yes please"),
            "f.yaml: line 6: explicitAckMode: yes please is not enable, disable or",
        ),
        (with_line("batch: {mode: on}"), "f.yaml: line 6: mode: true is neither enable nor disable"),
        (
            with_attributes("errors.deadletterqueue.copy.record.enable: false"),
            "f.yaml: line 8: errors.deadletterqueue.copy",
        ),
        (with_attributes("retry: {attempt: 3}"), "f.yaml: line 8: there is no field attempt; did you mean attempts?"),
        (
            with_attributes("heartbeatInterval: 10s"),
            "f.yaml: line 8: heartbeatInterval: the heartbeat interval of 10s is too",
        ),
        ("a: [", "f.yaml: line "),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    assert error_of(text).startswith(sentence)


def test_every_parameter_of_nuclios_dashboard_is_read() -> None:
    file = file_of(
        """\
        metadata: {name: billing}
        spec:
          minReplicas: 3
          maxReplicas: 3
          triggers:
            stream:
              kind: v3ioStream
              url: " http://v3io-webapi:8081/bigdata/my-stream@my-consumer-group"
              maxWorkers: 8
              workerAvailabilityTimeoutMilliseconds: 10000
              partitions: [{id: 0}, {id: 1}]
              username: someone
              password: my-key
              workerAllocatorName: shared
              attributes: {seekTo: latest, readBatchSize: 64, pollingIntervalMs: 500}
        """
    )
    assert [warning.split(": ")[2].split(" is ")[0] for warning in file.warnings] == [
        "workerAvailabilityTimeoutMilliseconds",
        "partitions",
        "username",
        "workerAllocatorName",
    ]
    assert merge_layers([file.layer], origin="f.yaml") == STREAM


def test_fields_for_containers_are_ignored_with_a_warning() -> None:
    text = SHORT.replace(
        "spec:\n", "spec:\n  resources: {limits: {memory: 256M}}\n  build: {commands: [pip install x]}\n"
    )
    assert file_of(text).warnings == (
        "f.yaml: line 3: resources has no effect in Tailrace",
        "f.yaml: line 4: build has no effect: install what the function imports yourself",
    )
    file = file_of(
        with_attributes("fetchMin: 1\nrebalanceTimeout: 60s\nretryBackoff: 2s\nworkerAllocationMode: static")
    )
    assert len(file.warnings) == 4
    assert merge_layers([file.layer], origin="f.yaml") == config_of(SHORT)


def test_the_number_of_replicas_follows_the_rules_of_nuclio() -> None:
    def replicas(lines: str) -> tuple[int | None, int]:
        config = config_of(SHORT.replace("spec:\n", "spec:\n" + "".join(f"  {each}\n" for each in lines.splitlines())))
        return config.min_replicas, config.replicas

    assert replicas("minReplicas: 2\nmaxReplicas: 8") == (2, 8)
    assert replicas("minReplicas: 3\nmaxReplicas: 3") == (None, 3)
    assert replicas("maxReplicas: 4") == (None, 4)
    assert replicas("minReplicas: 4") == (None, 4)
    assert replicas("replicas: 5\nmaxReplicas: 8") == (None, 5)
    with pytest.raises(TriggerConfigError, match="line 3: minReplicas: the smallest number of replicas, 9, is larger"):
        replicas("minReplicas: 9\nmaxReplicas: 8")


def test_times_of_the_function_and_its_workers() -> None:
    text = SHORT.replace("spec:\n", "spec:\n  eventTimeout: 20s\n")
    assert config_of(text).event_timeout == 20.0
    assert config_of(with_line("workerTerminationTimeout: 15s")).stop_timeout == 15.0
    assert config_of(with_attributes("maxWaitHandlerDuringRebalance: 7s")).stop_timeout == 7.0


def test_environment_variables_reach_the_workers() -> None:
    text = SHORT.replace(
        "spec:\n",
        "spec:\n  env:\n  - name: LEVEL\n    value: 5\n  - name: KEY\n    valueFrom: {secretKeyRef: {name: s}}\n",
    )
    file = file_of(text)
    assert merge_layers([file.layer], origin="f").environment == {"LEVEL": "5"}
    assert file.warnings == (
        "f.yaml: line 7: valueFrom: KEY keeps the value that it has in the environment of the replica",
    )


def test_one_of_several_triggers_is_chosen_by_its_name() -> None:
    other = "    u:\n      kind: kafka-cluster\n      url: kafka://h:1/copies@g\n    w: {kind: http}\n"
    assert error_of(SHORT + other) == (
        "f.yaml: line 3: triggers: several triggers read a stream: t, u: choose one with --trigger"
    )
    assert config_of(SHORT + other, trigger="u").topic == "copies"
    assert error_of(SHORT + other, trigger="v").startswith("f.yaml: line 3: triggers: there is no trigger v")
    assert "its kind http reads no stream" in error_of(SHORT + other, trigger="w")


def test_a_trigger_of_another_kind_beside_the_stream_is_ignored_with_a_warning() -> None:
    file = file_of(SHORT + "    web: {kind: http, maxWorkers: 1, attributes: {port: 80}}\n")
    assert file.warnings == ("f.yaml: line 7: trigger web is ignored, because its kind http reads no stream",)


def test_a_file_may_have_its_source_inside() -> None:
    code = base64.b64encode(b"def handler(context, event): ...\n").decode()
    text = SHORT.replace("spec:\n", f"spec:\n  build: {{functionSourceCode: {code}}}\n")
    file = file_of(text)
    assert file.source == "def handler(context, event): ...\n"
    assert file.warnings == ()
    assert error_of(text.replace(code, "x")).startswith("f.yaml: line 3: functionSourceCode is not text in Base64")
