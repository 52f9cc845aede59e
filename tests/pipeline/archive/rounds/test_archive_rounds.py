"""Tests rounds on real segments. Tasks run in this process; compat_tests/spark runs them on Spark."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from segment_logs import CONFIG, TOPIC_ID, Spu, fill
from spus import SteadyClock

from tailrace.pipeline.archive.rounds import archive_rounds
from tailrace.pipeline.archive.rounds.archive_planning import LATEST
from tailrace.pipeline.archive.rounds.archive_rounds import (
    ArchiveResult,
    archive,
    archive_every,
    open_or_create,
    source_of,
)
from tailrace.pipeline.archive.rounds.chunk_reading import ArchiveTask
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.job_errors import JobError, SessionEndedError

RECORDS = 300


class Context(Struct):
    defaultParallelism: int = 1  # noqa: N815 - PySpark's name


class Session(Struct):
    sparkContext: Context  # noqa: N815 - PySpark's name


SESSION: Any = Session(Context())
Hook = Callable[[Sequence[ArchiveTask]], None]


class World(Struct):
    """An SPU's files, and an archive of them."""

    directory: Path
    spu: Spu
    before_wave: list[Hook]
    """Calls before the next waves."""
    after_wave: list[Hook]
    waves: list[Sequence[ArchiveTask]]

    @property
    def to(self) -> str:
        return str(self.directory / "archive")

    def archive(self, **settings: Any) -> ArchiveResult:
        settings = {"chunk_bytes": 4000, **settings}
        return archive(SESSION, None, self.to, segments=[self.spu.directory], **settings)

    def offsets(self) -> list[int]:
        """Checks the whole archive, and returns the offsets in its files."""
        import pyarrow.parquet as pq

        manifest = ArchiveFolder(self.to).load().manifest
        for chunk in manifest.chunks:
            chunk.check()
        found = [
            offset
            for file in manifest.files()
            for offset in pq.read_table(Path(self.to, file.path), partitioning=None).column("offset").to_pylist()
        ]
        assert len(found) == len(set(found)), "an offset is in the archive twice"
        return sorted(found)

    def files(self) -> set[str]:
        return {str(each.relative_to(self.to)) for each in Path(self.to, "data").rglob("*") if each.is_file()}

    def named(self) -> set[str]:
        return {each.path for each in ArchiveFolder(self.to).load().manifest.files()}


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    spu = Spu(tmp_path / "spu", replace(CONFIG, segment_bytes_max=4000))
    log = spu.log()
    fill(log, RECORDS)
    await log.sync()
    await spu.commit(RECORDS)
    world = World(tmp_path, spu, [], [], [])

    def run_tasks(spark: Any, tasks: Sequence[Any], work: Callable[[Any], Any], **_: Any) -> list[Any]:
        world.waves.append(tasks)
        if world.before_wave:
            world.before_wave.pop(0)(tasks)
        found = [work(task) for task in tasks]
        if world.after_wave:
            world.after_wave.pop(0)(tasks)
        return found

    monkeypatch.setattr(archive_rounds, "run_tasks", run_tasks)
    return world


async def test_a_round_archives_every_record_once(world: World) -> None:
    result = world.archive()
    assert world.offsets() == list(range(RECORDS))
    assert (result.records, result.is_ok) == (RECORDS, True)
    assert len(world.waves) == result.commits - 1 > 1
    assert world.files() == world.named()
    again = world.archive()
    assert (again.records, again.commits, again.verdict) == (
        0,
        0,
        f"nothing new of events, and the archive is at commit {result.commits}",
    )


async def test_a_round_goes_on_where_the_archive_ends(world: World) -> None:
    world.archive(until_ms=1_700_000_000_000 + 120_000)
    assert world.offsets() == list(range(120))
    world.archive()
    assert world.offsets() == list(range(RECORDS))


async def test_an_archive_may_begin_with_the_next_record(world: World) -> None:
    world.archive(begin=LATEST)
    assert world.offsets() == []
    assert ArchiveFolder(world.to).load().manifest.positions() == {str(TOPIC_ID): {0: RECORDS}}


async def test_a_wave_that_fails_leaves_the_archive_as_it_was(world: World) -> None:
    def fail(tasks: Sequence[ArchiveTask]) -> None:
        raise JobError("the disk of /archive is full")

    world.after_wave = [lambda tasks: None, fail]
    with pytest.raises(JobError, match="the disk of /archive is full"):
        world.archive()
    assert len(world.waves) == 2
    assert world.files() == world.named() != set()
    world.archive()
    assert world.offsets() == list(range(RECORDS))


async def test_a_wave_that_fails_removes_no_file_that_counts(world: World) -> None:
    """Another driver, or a compaction, may have files with the same digits, and commits them at the same moment."""

    def fail_while_others_commit(tasks: Sequence[ArchiveTask]) -> None:
        wave = tasks[0].wave

        def others_commit(folder: ArchiveFolder, *given: Any) -> Any:
            monkeypatch.undo()
            before = load(folder, *given)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(archive_rounds, "run_tasks", run_tasks)
                world.archive()
            return before

        def run_tasks(spark: Any, some: Sequence[ArchiveTask], work: Callable[[Any], Any], **_: Any) -> list[Any]:
            return [work(replace(each, wave=wave)) for each in some]

        monkeypatch.setattr(ArchiveFolder, "load", others_commit)
        raise JobError("an executor is lost")

    load, monkeypatch = ArchiveFolder.load, pytest.MonkeyPatch()
    world.after_wave = [lambda tasks: None, fail_while_others_commit]
    with pytest.raises(JobError, match="an executor is lost"):
        world.archive()
    assert world.offsets() == list(range(RECORDS))
    assert world.named() <= world.files()


async def test_a_driver_that_is_killed_before_a_commit_is_followed_by_another(world: World) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArchiveFolder, "commit", kill)
        with pytest.raises(Killed):
            world.archive()
    world.archive()
    assert world.offsets() == list(range(RECORDS))


async def test_of_two_drivers_one_commits_and_the_other_plans_again(world: World) -> None:
    results: list[ArchiveResult] = []
    world.after_wave = [lambda tasks: results.append(world.archive())]
    late = world.archive()
    assert results[0].records == RECORDS
    assert (late.records, late.facts["commits of others"]) == (0, 1)
    assert world.offsets() == list(range(RECORDS))
    assert world.files() == world.named()


async def test_two_drivers_share_the_work_when_they_meet(world: World) -> None:
    world.after_wave = [lambda tasks: world.archive(until_ms=1_700_000_000_000 + 150_000) and None]
    late = world.archive()
    assert late.records == RECORDS - 150
    assert world.offsets() == list(range(RECORDS))


async def test_a_directory_that_is_not_shared_is_found_before_the_commit(world: World) -> None:
    def hide(tasks: Sequence[ArchiveTask]) -> None:
        Path(world.to, "data").rename(world.directory / "elsewhere")

    world.after_wave = [hide]
    with pytest.raises(JobError, match="must be a directory that the driver and all executors share"):
        world.archive()
    assert world.named() == set()


async def test_rounds_follow_one_another_and_go_on_after_an_error(world: World, tmp_path: Path) -> None:
    folder = open_or_create(world.to)
    source = source_of((), [world.spu.directory])
    settings = archive_rounds.ArchiveSettings(topics=None)
    clock, waits = SteadyClock(), list[float]()
    rounds = archive_every(SESSION, folder, source, settings, 300.0, wait=waits.append, wall_clock=clock)
    first = next(rounds)
    assert isinstance(first, ArchiveResult) and first.records == RECORDS

    def fail(tasks: Sequence[ArchiveTask]) -> None:
        raise JobError("an executor is lost")

    log = world.spu.log()
    fill(log, 20)
    await log.sync()
    await world.spu.commit(RECORDS + 20)
    clock.time_ms += 100_000
    world.before_wave = [fail]
    second, third = next(rounds), next(rounds)
    assert isinstance(second, JobError) and str(second) == "an executor is lost"
    assert isinstance(third, ArchiveResult) and third.records == 20
    assert waits == [200.0, 300.0]


async def test_rounds_end_with_the_session(world: World) -> None:
    """No later round can do better, so somebody must start the job again."""

    class Ended:
        sparkContext = None  # noqa: N815 - PySpark's name

    ended: Any = Ended()
    settings = archive_rounds.ArchiveSettings(topics=None)
    source = source_of((), [world.spu.directory])
    rounds = archive_every(ended, open_or_create(world.to), source, settings, 300.0, wait=lambda seconds: None)
    with pytest.raises(SessionEndedError, match="the session of Spark has ended"):
        next(rounds)


def test_the_head_stays_where_the_archive_began(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"the SC at 127.0.0.1:1 does not answer"):
        open_or_create(str(tmp_path / "a"), ["127.0.0.1:1"])
    assert not (tmp_path / "a").exists()
    open_or_create(str(tmp_path / "b"))
    with pytest.raises(JobError, match=r"lives beside its files, as archive.json there says: remove --sc"):
        open_or_create(str(tmp_path / "b"), ["127.0.0.1:1"])


@pytest.mark.parametrize(("brokers", "segments"), [((), ()), (("127.0.0.1:9092",), ("/data",))])
def test_a_source_is_named_once(brokers: tuple[str, ...], segments: tuple[str, ...]) -> None:
    with pytest.raises(JobError, match="either from brokers or from segments"):
        source_of(brokers, segments)
