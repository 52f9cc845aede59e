"""Hosts coordinators on an SPU: loads them, appends their records, responds after the commit.

A coordinator decides for the keys of one partition of an internal topic, for example for groups. `CoordinatorKind` says
what this room must know of it. May import the replicas; knows neither groups nor transactions.
"""
