"""Runs coordinators on an SPU: loads them, appends their records, responds after the commit.

May import the pure rooms of groups and the replicas.
"""
