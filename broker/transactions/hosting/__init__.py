"""Runs the coordinators of transactions on an SPU, and sends their markers to the leaders of partitions.

May import the pure rooms of transactions, `broker/coordination` and the requests to other SPUs.
"""
