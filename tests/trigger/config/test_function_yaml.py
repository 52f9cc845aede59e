import base64
from textwrap import dedent

import pytest
from msgspec.structs import replace

from tailrace.trigger.config.function_yaml import FunctionFile, read_function_yaml
from tailrace.trigger.config.trigger_config import (
    Acknowledgement,
    OnExhausted,
    Order,
    Retry,
    RetryMode,
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


def _config(text: str, **options: str) -> TriggerConfig:
    return merge_layers([_file(text, **options).layer], origin="f.yaml")


def _file(text: str, **options: str) -> FunctionFile:
    return read_function_yaml(dedent(text), "f.yaml", **options)  # type: ignore[arg-type]


def _error(text: str, **options: str) -> str:
    with pytest.raises(TriggerConfigError) as caught:
        _config(text, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _with(line: str, at: str = "kind: v3ioStream") -> str:
    """Returns the short file with a line after the line `at`, in the same depth."""
    lines = SHORT.splitlines()
    number = next(number for number, each in enumerate(lines) if at in each)
    depth = len(lines[number]) - len(lines[number].lstrip())
    lines[number + 1 : number + 1] = [" " * depth + each for each in line.splitlines()]
    return "\n".join(lines)


def _attribute(line: str) -> str:
    return SHORT + "      attributes:\n" + "".join(f"        {each}\n" for each in line.splitlines())


def test_a_file_for_a_stream_of_v3io_reads_unchanged() -> None:
    file = _file(V3IO)
    assert file.warnings == ()
    assert (file.handler, file.source) == ("main:handler", None)
    assert merge_layers([file.layer], origin="f.yaml") == TriggerConfig(
        name="billing",
        topic="my-stream",
        group="my-consumer-group",
        replicas=3,
        max_workers=8,
        access_key="my-key",
        seek_to=SeekTo.EARLIEST,
        read_batch_size=64,
        polling_interval=0.5,
        session_timeout=20.0,
        heartbeat_interval=5.0,
        commit_interval=2.0,
    )


def test_a_file_for_kafka_reads_unchanged() -> None:
    config = _config(KAFKA)
    assert (config.topic, config.group, config.max_workers) == ("mytopic", "my-consumer-group", 4)
    assert config.brokers == ("10.0.0.2:9092", "10.0.0.3:9092")
    assert config.seek_to is SeekTo.EARLIEST


def test_a_url_of_kafka_names_brokers_topic_and_group() -> None:
    config = _config(SHORT.replace("http://v3io-webapi:8081/c/orders@g", "kafka://host:9005/topic@group"))
    assert (config.brokers, config.topic, config.group) == (("host:9005",), "topic", "group")


def test_the_access_key_is_the_password_or_comes_from_the_environment() -> None:
    assert _config(_with("password: abc")).access_key == "abc"
    generated = _with("password: $generate")
    read = read_function_yaml(generated, "f.yaml", environment={"V3IO_ACCESS_KEY": "secret"})
    assert merge_layers([read.layer], origin="f.yaml").access_key == "secret"
    assert "needs the variable V3IO_ACCESS_KEY, which is not set" in _error(generated)


@pytest.mark.parametrize(
    "line",
    [
        "workerAvailabilityTimeoutMilliseconds: 10000",
        "partitions: []",
        "partitions:\n- id: 0",
        "username: someone",
        "workerAllocatorName: mine",
    ],
)
def test_a_deprecated_field_is_accepted_warned_about_and_has_no_effect(line: str) -> None:
    file = _file(_with(line))
    (warning,) = file.warnings
    assert warning.startswith(f"f.yaml: line 6: {line.partition(':')[0]} is deprecated and ignored: ")
    assert merge_layers([file.layer], origin="f.yaml") == _config(SHORT)


def test_session_timeout_and_heartbeat_come_from_the_file_alone() -> None:
    config = _config(SHORT)
    assert (config.session_timeout, config.heartbeat_interval) == (10.0, 3.0)
    config = _config(_attribute("sessionTimeout: 30s\nheartbeatInterval: 500ms"))
    assert (config.session_timeout, config.heartbeat_interval) == (30.0, 0.5)


def test_annotations_set_what_the_dashboard_of_nuclio_cannot() -> None:
    text = KAFKA.replace(
        "  name: billing\n",
        "  name: billing\n  annotations:\n    nuclio.io/kafka-session-timeout: 40s\n"
        "    nuclio.io/v3iostream-session-timeout: 50s\n    nuclio.io/kafka-explicit-ack-mode: explicitOnly\n"
        "    other/kafka-x: y\n",
    )
    config = _config(text)
    assert config.session_timeout == 40.0, "the annotation of the same kind"
    assert config.acknowledgement is Acknowledgement.EXPLICIT
    assert _config(text + "        sessionTimeout: 30s\n").session_timeout == 30.0, "an attribute wins"
    assert _error(text.replace("40s", "forty")).startswith(
        "f.yaml: annotation nuclio.io/kafka-session-timeout: forty is"
    )


def test_a_duration_without_a_unit_is_an_error_with_its_line() -> None:
    assert _error(_attribute("sessionTimeout: 10")) == (
        'f.yaml: line 8: sessionTimeout: 10 is not a duration with a unit, such as "10s" or "500ms"'
    )


def test_the_polling_interval_is_in_milliseconds() -> None:
    assert _config(_attribute("pollingIntervalMs: 250")).polling_interval == 0.25
    assert _error(_attribute("pollingIntervalMs: 1s")) == (
        "f.yaml: line 8: pollingIntervalMs: 1s is not a whole number from 0 to 3600000"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            _attribute("sesionTimeout: 10s"),
            "f.yaml: line 8: there is no field sesionTimeout; did you mean sessionTimeout?",
        ),
        (_with("maxWorker: 3"), "f.yaml: line 6: there is no field maxWorker; did you mean maxWorkers?"),
        (_attribute("seekTo: beginning"), "f.yaml: line 8: seekTo: beginning is not earliest or latest"),
        (_with("maxWorkers: 0"), "f.yaml: line 6: maxWorkers: 0 is not a whole number from 1 to 256"),
        (_with("maxWorkers: 2\nnumWorkers: 3"), "f.yaml: line 7: numWorkers contradicts maxWorkers in line 6"),
        (_with("MaxWorkers: 2\nmaxworkers: 2"), "f.yaml: line 7: maxworkers occurs twice, also as MaxWorkers"),
        (_with("attributes: 5"), "f.yaml: line 6: attributes: 5 must have fields"),
        (
            SHORT.replace("v3ioStream", "v3iostreams"),
            "f.yaml: line 5: trigger t: there is no kind v3iostreams: expected",
        ),
        (SHORT.replace("kind: v3ioStream", "name: x"), "f.yaml: line 4: trigger t: the kind is missing: expected"),
        (
            SHORT.replace("v3ioStream", "http"),
            "f.yaml: line 4: trigger t is ignored, because its kind http reads no stream",
        ),
        (_with("disabled: true"), "f.yaml: line 4: trigger t is ignored, because it is disabled"),
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
        (_attribute("topics: [a, b]"), "f.yaml: line 8: topics: a trigger reads one topic, and ['a', 'b'] is not one"),
        (_attribute("ackWindowSize: 5"), "f.yaml: line 8: ackWindowSize: a window of handled events"),
        (_attribute("tls: {enable: true}"), "f.yaml: line 8: enable: triggers cannot use TLS yet"),
        (_attribute("caCert: xyz"), "f.yaml: line 8: caCert: triggers cannot use TLS yet"),
        (_attribute("sasl: {enable: true, mechanism: scram}"), "f.yaml: line 8: mechanism: the only mechanism"),
        (
            _attribute("workerAllocationMode: none"),
            "f.yaml: line 8: workerAllocationMode: none is neither pool nor static",
        ),
        (_with("explicitAckMode: yes please"), "f.yaml: line 6: explicitAckMode: yes please is not enable, disable or"),
        (_with("batch: {mode: on}"), "f.yaml: line 6: mode: true is neither enable nor disable"),
        (_attribute("errors.deadletterqueue.copy.record.enable: false"), "f.yaml: line 8: errors.deadletterqueue.copy"),
        (_attribute("retry: {attempt: 3}"), "f.yaml: line 8: there is no field attempt; did you mean attempts?"),
        (
            _attribute("heartbeatInterval: 10s"),
            "f.yaml: line 8: heartbeatInterval: the heartbeat interval of 10s is too",
        ),
        ("a: [", "f.yaml: line "),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    assert _error(text).startswith(sentence)


def test_fields_for_containers_are_ignored_with_a_warning() -> None:
    text = SHORT.replace(
        "spec:\n", "spec:\n  resources: {limits: {memory: 256M}}\n  build: {commands: [pip install x]}\n"
    )
    assert _file(text).warnings == (
        "f.yaml: line 3: resources has no effect in Tailrace",
        "f.yaml: line 4: build has no effect: install what the function imports yourself",
    )
    file = _file(_attribute("fetchMin: 1\nrebalanceTimeout: 60s\nretryBackoff: 2s\nworkerAllocationMode: static"))
    assert len(file.warnings) == 4
    assert merge_layers([file.layer], origin="f.yaml") == _config(SHORT)


def test_the_number_of_replicas_follows_the_rules_of_nuclio() -> None:
    def replicas(lines: str) -> tuple[int | None, int]:
        config = _config(SHORT.replace("spec:\n", "spec:\n" + "".join(f"  {each}\n" for each in lines.splitlines())))
        return config.min_replicas, config.replicas

    assert replicas("minReplicas: 2\nmaxReplicas: 8") == (2, 8)
    assert replicas("minReplicas: 3\nmaxReplicas: 3") == (None, 3)
    assert replicas("maxReplicas: 4") == (None, 4)
    assert replicas("minReplicas: 4") == (None, 4)
    assert replicas("replicas: 5\nmaxReplicas: 8") == (None, 5)
    with pytest.raises(TriggerConfigError, match="line 3: minReplicas: the least number of replicas, 9, is larger"):
        replicas("minReplicas: 9\nmaxReplicas: 8")


@pytest.mark.parametrize(
    ("mode", "meant"),
    [
        ("enable", Acknowledgement.EITHER),
        ("explicitOnly", Acknowledgement.EXPLICIT),
        ("disable", Acknowledgement.AUTOMATIC),
    ],
)
def test_the_modes_of_explicit_acknowledgement_are_those_of_nuclio(mode: str, meant: Acknowledgement) -> None:
    assert _config(_with(f"explicitAckMode: {mode}")).acknowledgement is meant


def test_a_batch_has_the_size_and_time_of_nuclio_by_default() -> None:
    config = _config(_with("batch: {mode: enable}"))
    assert (config.batch_size, config.batch_seconds) == (10, 1.0)
    config = _config(_with("batch: {mode: enable, batchSize: 50, timeout: 200ms}"))
    assert (config.batch_size, config.batch_seconds) == (50, 0.2)
    assert _config(_with("batch: {mode: disable, batchSize: 50}")).batch_size == 0


def test_attributes_reach_all_that_tailrace_adds() -> None:
    config = _config(
        _attribute(
            "errors.deadletterqueue.topic.name: orders.dead\n"
            "errors.deadletterqueue.copy.record.enable: true\n"
            "retry: {attempts: 3, backoff: 1s..8s, mode: aside, maxAge: 1h}\n"
            "onExhausted: dead-letter\n"
            "eventTimeout: 5s\n"
            "workerMemoryMax: 256Mi\n"
        )
    )
    assert config.dead_letters == "orders.dead"
    assert config.retry == Retry(3, (1.0, 8.0), RetryMode.ASIDE, 3600.0)
    assert config.on_exhausted is OnExhausted.DEAD_LETTER
    assert (config.event_timeout, config.worker_memory_max) == (5.0, 256 * 1024**2)
    assert _config(_attribute("order: key")).order is Order.KEY
    config = _config(_with("batch: {mode: enable}") + "\n      attributes: {retry: {splitBatch: true}}")
    assert config.retry.split_batch


def test_times_of_the_function_and_its_workers() -> None:
    text = SHORT.replace("spec:\n", "spec:\n  eventTimeout: 20s\n")
    assert _config(text).event_timeout == 20.0
    assert _config(_with("workerTerminationTimeout: 15s")).stop_timeout == 15.0
    assert _config(_attribute("maxWaitHandlerDuringRebalance: 7s")).stop_timeout == 7.0


def test_environment_variables_reach_the_workers() -> None:
    text = SHORT.replace(
        "spec:\n",
        "spec:\n  env:\n  - name: LEVEL\n    value: 5\n  - name: KEY\n    valueFrom: {secretKeyRef: {name: s}}\n",
    )
    file = _file(text)
    assert merge_layers([file.layer], origin="f").environment == {"LEVEL": "5"}
    assert file.warnings == (
        "f.yaml: line 7: valueFrom: KEY keeps the value that it has in the environment of the replica",
    )


def test_sasl_of_kafka_gives_user_and_access_key() -> None:
    config = _config(_attribute("sasl: {enable: true, user: me, password: p, mechanism: plain}"))
    assert (config.access_user, config.access_key) == ("me", "p")
    assert _config(_attribute("sasl: {enable: false, user: me}")).access_user is None


def test_one_of_several_triggers_is_chosen_by_its_name() -> None:
    other = "    u:\n      kind: kafka-cluster\n      url: kafka://h:1/copies@g\n    w: {kind: http}\n"
    assert _error(SHORT + other) == (
        "f.yaml: line 3: triggers: several triggers read a stream: t, u: choose one with --trigger"
    )
    assert _config(SHORT + other, trigger="u").topic == "copies"
    assert _error(SHORT + other, trigger="v").startswith("f.yaml: line 3: triggers: there is no trigger v")
    assert "its kind http reads no stream" in _error(SHORT + other, trigger="w")


def test_a_trigger_of_another_kind_beside_the_stream_is_ignored_with_a_warning() -> None:
    file = _file(SHORT + "    web: {kind: http, maxWorkers: 1, attributes: {port: 80}}\n")
    assert file.warnings == ("f.yaml: line 7: trigger web is ignored, because its kind http reads no stream",)


def test_a_file_may_have_its_source_inside() -> None:
    code = base64.b64encode(b"def handler(context, event): ...\n").decode()
    text = SHORT.replace("spec:\n", f"spec:\n  build: {{functionSourceCode: {code}}}\n")
    file = _file(text)
    assert file.source == "def handler(context, event): ...\n"
    assert file.warnings == ()
    assert _error(text.replace(code, "x")).startswith("f.yaml: line 3: functionSourceCode is not text in Base64")


def test_names_of_fields_ignore_the_case_as_in_nuclio() -> None:
    assert _config(_attribute("SessionTimeout: 20s")) == replace(_config(SHORT), session_timeout=20.0)
