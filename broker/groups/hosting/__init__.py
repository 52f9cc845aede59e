"""Runs coordinators on an SPU: loads them from the log, appends what they decide, responds after the commit.
May import the pure rooms and the replicas.
"""
