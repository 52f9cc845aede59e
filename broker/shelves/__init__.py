"""Shelves: ranges of old segments that are stored on SPUs without a replica. May import copies, peers and upkeep.

The leader's side is `offload_plan`, `offloading` and `shelf_reads`: the leader moves segments to shelves, and reads
them for its clients. All other modules are the storing SPU's side: it fills, serves, scrubs, repairs and removes the
copies of shelves that its specs assign to it. An SPU has both sides, for different partitions.
"""
