"""kafka-python's own tests expect no more and no less of Tailrace than of Apache Kafka."""

import pytest
from brokers import is_apache_kafka
from peer.apache_kafka import ApacheKafka
from secured_broker import SecuredTailrace
from spu_cluster import SeparateCluster

from .own_suite import BROKER_ID, BROKER_SETTINGS, SECURITY_SETTINGS, OwnSuite
from .own_suite_tests import LEFT_OUT, NOT_SERVED_YET, RUN_SECURED, run

TESTS = [
    *run(),
    *[pytest.param(test, marks=pytest.mark.skip(reason=why)) for test, why in LEFT_OUT.items()],
    *NOT_SERVED_YET,
]


@pytest.fixture(scope="module")
def suite(request, tmp_path_factory):
    if given := request.config.getoption("--bootstrap"):
        yield OwnSuite.unsecured(tmp_path_factory.mktemp("own-suite"), given)
        return
    directory = tmp_path_factory.mktemp("broker")
    if is_apache_kafka(request):
        broker = ApacheKafka(directory, node=BROKER_ID, settings=BROKER_SETTINGS)
    else:
        broker = SeparateCluster(directory, spus=1, first_id=BROKER_ID, settings=BROKER_SETTINGS)
    try:
        broker.start()
        yield OwnSuite.unsecured(tmp_path_factory.mktemp("own-suite"), broker.bootstrap)
        broker.stop()
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def secured_suite(request, tmp_path_factory):
    if is_apache_kafka(request) or request.config.getoption("--bootstrap"):
        pytest.skip("the suite itself runs its tests of security on Apache Kafka")
    broker = SecuredTailrace(tmp_path_factory.mktemp("secured"), SECURITY_SETTINGS)
    try:
        yield OwnSuite.secured(tmp_path_factory.mktemp("own-suite"), broker.start())
    finally:
        broker.stop()


def test_every_test_of_the_suite_is_run_or_left_out_for_a_reason(suite):
    assert suite.collected() == {*run(), *RUN_SECURED, *LEFT_OUT, *NOT_SERVED_YET}


@pytest.mark.parametrize("test", TESTS)
def test_it_passes(request, suite, test):
    if test in NOT_SERVED_YET and not is_apache_kafka(request):
        pytest.skip(NOT_SERVED_YET[test])
    outcome = suite.run(test)
    assert outcome.passed, outcome.output
    assert not outcome.not_passed, outcome.output


@pytest.mark.parametrize("test", RUN_SECURED)
def test_it_passes_secured(secured_suite, test):
    outcome = secured_suite.run(test)
    assert outcome.passed, outcome.output
    assert not outcome.not_passed, outcome.output
