"""The data source `tailrace-segments`: reads the segments of SPUs and shelves from their files, without the SPUs.

The driver plans with the readers of `storage`. Executors get the rest with the job, so that part imports neither Trio
nor `storage`.
"""
