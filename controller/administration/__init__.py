"""Requests that change the cluster: each is planned by pure functions, then written, then awaited. May import workflow
and all that it imports.
"""
