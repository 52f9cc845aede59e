"""Markers make verifications of the same producer in the same replica void."""

from spus import running_spu

from tailrace.broker.transactions.markers.verifications import Verifications


async def test_a_marker_makes_verifications_of_its_producer_void(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        replica, other = running.replica("t", 0), running.replica("t", 1)
        verifications = Verifications()
        waiting = [verifications.begin(replica, 7, raises_epochs=False) for _ in range(2)]
        others = [
            verifications.begin(replica, 8, raises_epochs=False),
            verifications.begin(other, 7, raises_epochs=False),
            verifications.begin(replica, 7, raises_epochs=True),
        ]
        verifications.on_marker(replica, 7)
        assert [each.is_void for each in waiting] == [True, True]
        assert [each.is_void for each in others] == [False, False, False]
        assert not verifications.begin(replica, 7, raises_epochs=False).is_void, "it began after the marker"


async def test_nothing_is_kept_of_ended_verifications(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        verifications = Verifications()
        for marked in (True, False):
            waiting = [verifications.begin(replica, 7, raises_epochs=False) for _ in range(2)]
            if marked:
                verifications.on_marker(replica, 7)
            for each in waiting:
                verifications.end(each)
            assert len(verifications) == 0
