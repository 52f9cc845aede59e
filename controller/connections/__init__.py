"""Connections of SPUs to the SC: admission, leases, streams of specs, reports. May import objects, state and
sc_metrics.
"""
