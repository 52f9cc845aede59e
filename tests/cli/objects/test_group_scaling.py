"""Tests scaling with an SC in memory; compat_tests scale groups of real processes."""

import pytest
import trio
from public_sc import PublicSc, public_sc, tailrace

CREATE = ("spu-group", "create", "main", "--min-id", "1", "--replicas")
SCALE = ("spu-group", "scale", "main")


async def _said(sc: PublicSc, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[str, str]:
    assert await tailrace(sc.network, *words) == status
    shown = capsys.readouterr()
    return shown.out, shown.err


async def test_it_says_which_spu_stays_and_why(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc:
        await _said(sc, capsys, *CREATE, "2")
        await sc.running.connect(1, 2)
        await _said(sc, capsys, "topic", "create", "orders", "--replication-factor", "2", "--wait", "5")
        reason = (
            "SPU 2 stays, because it holds 1 replica: orders needs 2 SPUs, and 1 would be online; keep 2, or run "
            "`tailrace topic alter orders --replication-factor 1`"
        )
        assert await _said(sc, capsys, *SCALE, "1") == (f"scaled SPU group main to 1 SPU\n{reason}\n", "")
        out, err = await _said(sc, capsys, *SCALE, "1", "--wait", "60", status=1)
        assert out == ""
        *progress, last = err.splitlines()
        assert all(line.startswith("scaling main: ") for line in progress)
        assert last == f"tailrace spu-group scale: {reason}"

        # It leaves as soon as nothing holds it any more.
        await _said(sc, capsys, "topic", "delete", "orders")
        out, _ = await _said(sc, capsys, *SCALE, "1", "--wait", "60")
        assert out == "scaled SPU group main to 1 SPU; all of its SPUs are online, and no other is left\n"


async def test_it_waits_for_new_spus_and_names_those_that_do_not_come(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc, trio.open_nursery() as nursery:
        await _said(sc, capsys, *CREATE, "1")
        await sc.running.connect(1)
        _, err = await _said(sc, capsys, *SCALE, "3", "--wait", "5", status=1)
        assert err.splitlines()[-1] == (
            "tailrace spu-group scale: SPU group main is not scaled after 5 s: not online yet: SPU 2, 3"
        )
        nursery.start_soon(sc.running.connect, 2, 3)
        out, _ = await _said(sc, capsys, *SCALE, "3", "--wait", "5")
        assert out.startswith("scaled SPU group main to 3 SPUs; all of its SPUs are online")
