"""Connections of SPUs to the SC: admission, leases, streams of specs, reports. May import objects and state."""
