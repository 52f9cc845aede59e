from collections.abc import Sequence

from tailrace.pipeline.audit.audit_verdicts import Bridge, EpochDifference, EpochFall, Finding, Hole, Verdict, named
from tailrace.pipeline.audit.recovery_verdicts import RecoveryVerdicts, Stamps

HOLE = Hole(10, 19, epoch=4, copies=(0, 1))


def _of_holes(bridges: Sequence[Bridge], *unfinished: int) -> list[Finding]:
    return list(RecoveryVerdicts(bridges, []).of_holes([HOLE], frozenset(unfinished)))


def test_a_hole_of_a_recovery_is_followed_by_its_bridge() -> None:
    assert _of_holes([Bridge(5, 3), Bridge(30, 4)]) == []
    assert _of_holes([Bridge(30, 3)]) == [], "a later recovery stamped the hole again"


def test_a_hole_without_a_bridge_or_before_that_of_another_recovery_is_outside() -> None:
    found = _of_holes([Bridge(5, 4)])
    assert [(each.copy, each.verdict, each.first, each.last) for each in found] == [
        (0, Verdict.HOLE, 10, 19),
        (1, Verdict.HOLE, 10, 19),
    ]
    assert found[0].sentence == "the hole at offset 10 is in no recovery: no bridge follows it"
    assert _of_holes([Bridge(5, 4), Bridge(30, 5)])[0].sentence.endswith("names epoch 5, and the hole is of epoch 4")


def test_a_recovery_that_goes_on_may_still_write_the_bridge() -> None:
    assert _of_holes([], 1) == []
    assert len(_of_holes([], 2)) == 2


def _of_differences(
    *epochs: int, bridges: Sequence[Bridge] = (), stamps: Sequence[Stamps] = ()
) -> list[tuple[int, Verdict]]:
    each = EpochDifference(10, 19, tuple(enumerate(epochs)))
    verdicts = RecoveryVerdicts(bridges, stamps or [Stamps()] * len(epochs))
    return [(found.copy, found.verdict) for found in verdicts.of_differences([each])]


def test_a_bridge_behind_them_explains_other_epochs() -> None:
    assert _of_differences(4, 5, bridges=[Bridge(20, 5)]) == []
    assert _of_differences(4, 5, bridges=[Bridge(9, 5)]) == [(0, Verdict.DIVERGED), (1, Verdict.DIVERGED)]
    assert _of_differences(4, 5, 6, bridges=[Bridge(20, 5)]) != []


def test_the_manifest_of_the_copy_with_the_larger_epoch_explains_it() -> None:
    assert _of_differences(4, 5, stamps=[Stamps(), Stamps(20, 5)]) == []
    assert _of_differences(4, 5, stamps=[Stamps(20, 5), Stamps()]) != []
    assert _of_differences(4, 6, stamps=[Stamps(), Stamps(20, 5)]) != []
    assert _of_differences(4, 5, stamps=[Stamps(), Stamps(19, 5)]) != []


def test_the_copy_with_the_unusual_epoch_has_diverged() -> None:
    assert _of_differences(4, 5, 4) == [(1, Verdict.DIVERGED)]
    assert _of_differences(4, 3, 4) == [(1, Verdict.DIVERGED)]
    (found,) = RecoveryVerdicts([], [Stamps()] * 3).of_differences([EpochDifference(1, 2, ((0, 4), (1, 4), (2, 7)))])
    assert named(found.sentence, ["A", "B", "C"]) == (
        "the batch at offset 1 has epoch 7, and 4 in A and 4 in B; no recovery says why"
    )


def test_an_epoch_falls_only_behind_stamped_batches() -> None:
    fall = EpochFall(0, before=9, epoch_before=5, offset=10, epoch=4)
    assert list(RecoveryVerdicts([], [Stamps(10, 5)]).of_falls([fall])) == []
    (found,) = RecoveryVerdicts([], [Stamps(9, 5)]).of_falls([fall])
    assert (found.verdict, found.first, found.last) == (Verdict.DIVERGED, 9, 10)
