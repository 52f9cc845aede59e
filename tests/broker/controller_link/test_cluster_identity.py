import pytest
from simulation.files import SimulatedFiles

from tailrace.broker.controller_link.cluster_identity import ClusterIdentity
from tailrace.protocol.ids import SpuId
from tailrace.storage.directory import layout


async def test_a_new_directory_joins_the_first_cluster_for_good() -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    await files.sync_directory("/")
    identity = ClusterIdentity(files, "/data", SpuId(1))
    assert identity.refusal("first") is None
    await identity.remember("first")
    await identity.remember("first")
    for each in (identity, ClusterIdentity(files.crash("synced"), "/data", SpuId(1))):
        assert each.refusal("first") is None
        refusal = each.refusal("second")
        assert refusal is not None
        assert "the cluster id second, but /data/cluster says that the data directory belongs to 'first'" in refusal


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"something else"])
async def test_a_file_that_is_not_ours_fits_no_cluster(content: bytes) -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    await files.replace(layout.cluster_path("/data"), content)
    assert ClusterIdentity(files, "/data", SpuId(1)).refusal("first") is not None


async def test_a_directory_belongs_to_the_spu_that_joined_with_it() -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    await files.sync_directory("/")
    await ClusterIdentity(files, "/data", SpuId(1)).remember("first")
    after = files.crash("synced")
    assert ClusterIdentity(after, "/data", SpuId(1)).other_owner is None
    assert ClusterIdentity(after, "/data", SpuId(2)).other_owner == "1"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"tailrace spu", b"something else"])
async def test_a_file_that_is_not_ours_fits_no_spu(content: bytes) -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    await files.replace(layout.spu_path("/data"), content)
    assert ClusterIdentity(files, "/data", SpuId(1)).other_owner is not None


async def test_what_an_earlier_version_left_gets_its_owner() -> None:
    files = SimulatedFiles()
    files.make_directories("/data")
    await files.replace(layout.cluster_path("/data"), b"tailrace cluster first\n")
    identity = ClusterIdentity(files, "/data", SpuId(1))
    assert identity.other_owner is None
    await identity.remember("first")
    assert ClusterIdentity(files, "/data", SpuId(2)).other_owner == "1"
