"""Shelves: ranges of old segments that are stored on SPUs without a replica. `offload*` and `shelf_reads` are the
leader's side; the other files are the storing SPU's side. May import copies, peers, upkeep and the controller link.
"""
