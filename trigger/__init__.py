"""Functions that run for every record of a stream: `@trigger`, and the replicas and workers that call it.

This package is a client of a cluster. `replica/` reads shards and keeps what is handled; `membership/` decides which
replica handles which shard; `shards/` decides what is handled next and what is marked; `pool/` runs worker processes;
`worker/` is the program of such a process; `functions/` is what users import.
"""
