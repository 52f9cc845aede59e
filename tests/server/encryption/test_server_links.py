from simulation.network import connected_pair

from tailrace.server.encryption.server_links import accept_server, check_name


async def test_plain_links_have_no_names() -> None:
    _, far = connected_pair()
    assert await accept_server(far, None) is far
    check_name(far, "spu-1.tailrace")


# tests/test_private_links.py has encrypted links, in whole clusters.
