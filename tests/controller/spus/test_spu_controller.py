"""The SPU Controller: which SPUs may connect, and which are online."""

from controller_model import Brain, address, connected, custom, listener, lost, model, storage
from msgspec.structs import replace

from tailrace.controller.objects.objects import Encryption, PrivateEndpoint, Spu, SpuResolution, SpuStatus
from tailrace.controller.state.actions import AddSpu, DeleteSpu, Put, UpdateSpu, WithdrawStatus
from tailrace.controller.state.events import LeaseGracePeriodOver, ReconciliationDue, Removed, Stored
from tailrace.security.settings.security_protocol import SecurityProtocol


def stored(spu: Spu, version: int) -> Stored:
    return Stored(replace(spu, version=version))


ONLINE = SpuStatus(SpuResolution.ONLINE, "first", "first", (listener(1),), address(1))


def test_a_registered_spu_may_connect_its_changes_are_told_and_its_end() -> None:
    brain = Brain()
    first, second = replace(custom(1), version=1), replace(custom(1, "rack-a"), version=2)
    assert brain.on(Stored(first)) == [AddSpu(first)]
    assert brain.on(Stored(second)) == [UpdateSpu(second)]
    assert brain.on(Removed("spu/1", 3)) == [DeleteSpu(first.spec.id)]


def test_an_spu_is_online_from_its_connection_to_its_loss() -> None:
    sc = model(1)
    assert sc.spu(1).status == ONLINE
    sc.stop_spu(1)
    sc.settle()
    assert sc.spu(1).status == replace(ONLINE, resolution=SpuResolution.OFFLINE, reason="its lease has expired")
    sc.start_spu(1, "second")
    sc.settle()
    assert sc.spu(1).status == replace(ONLINE, incarnation="second", store_incarnation="second")


def test_the_loss_of_an_spu_that_is_back_before_it_was_written_is_withdrawn() -> None:
    brain = Brain()
    brain.on(stored(custom(1), 4))
    online = Spu(custom(1).spec, ONLINE, 5)
    brain.on(connected(1))
    brain.on(Stored(online))
    (loss,) = brain.on(lost(1, "first"))
    assert isinstance(loss, Put)
    assert brain.on(connected(1)) == [WithdrawStatus(online)]


def test_an_spu_whose_storage_is_full_is_online_and_says_why_it_takes_no_more() -> None:
    sc = model(1)
    sc.from_connections.append(storage(1, 1200, 1000))
    sc.settle()
    assert sc.spu(1).status == replace(ONLINE, reason="its storage is full: 1200 of 1000 bytes")
    sc.from_connections.append(storage(1, 10, 1000))
    sc.settle()
    assert sc.spu(1).status == ONLINE


def test_an_spu_that_contradicts_its_registration_is_online_and_says_how() -> None:
    brain = Brain()
    plain = replace(custom(1), spec=replace(custom(1).spec, private=PrivateEndpoint(encryption=Encryption.PLAINTEXT)))
    brain.on(stored(plain, 4))
    (put,) = brain.on(replace(connected(1), private_protocol=SecurityProtocol.SSL))
    assert isinstance(put, Put)
    assert isinstance(put.object, Spu)
    status = put.object.status
    assert (status.resolution, status.private_protocol) == (SpuResolution.ONLINE, SecurityProtocol.SSL)
    assert status.reason.startswith("its listener PRIVATE uses SSL, but privateEndpoint.encryption says PLAINTEXT: ")


def test_the_loss_of_a_process_that_another_has_followed_changes_nothing() -> None:
    sc = model(1)
    sc.start_spu(1, "second")
    sc.settle()
    assert sc.deliver(lost(1, "first")) == []


def test_an_spu_that_connected_before_its_registration_was_read_is_online_when_it_is() -> None:
    brain = Brain()
    assert brain.on(connected(1)) == []
    actions = brain.on(stored(custom(1), 4))
    assert actions[1:] == [Put(Spu(custom(1).spec, ONLINE, 4))]


def test_an_spu_that_was_online_is_so_until_it_could_have_come_back() -> None:
    brain = Brain()
    online = Spu(custom(1).spec, ONLINE)
    assert brain.on(stored(online, 1)) == [AddSpu(replace(online, version=1))]
    assert brain.on(ReconciliationDue()) == []
    reason = "it has not been heard of since the SC started"
    offline = replace(ONLINE, resolution=SpuResolution.OFFLINE, reason=reason)
    assert brain.on(LeaseGracePeriodOver()) == [Put(Spu(online.spec, offline, 1))]


def test_an_spu_that_is_read_after_the_first_lease_is_judged_at_once() -> None:
    brain = Brain()
    brain.on(LeaseGracePeriodOver())
    put = brain.on(stored(Spu(custom(1).spec, ONLINE), 1))[1]
    assert isinstance(put, Put)
    assert isinstance(put.object, Spu)
    assert put.object.status.resolution is SpuResolution.OFFLINE


def test_an_spu_that_was_never_heard_of_stays_as_it_was_registered() -> None:
    brain = Brain()
    brain.on(stored(custom(1), 1))
    assert brain.on(LeaseGracePeriodOver(), ReconciliationDue()) == []


def test_a_lost_write_is_decided_again_on_the_newer_version() -> None:
    brain = Brain()
    brain.on(stored(custom(1), 1), connected(1))
    actions = brain.on(stored(custom(1, "rack-a"), 2))
    assert actions[1:] == [Put(Spu(custom(1, "rack-a").spec, ONLINE, 2))]
