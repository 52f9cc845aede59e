"""Runs coordinators on an SPU: loads them from the log, appends their records, and responds after the commit.

May import the pure rooms of groups and the replicas.
"""
