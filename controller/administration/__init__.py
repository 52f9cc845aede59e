"""Requests that change the cluster: each is planned purely, then written, then awaited. May import the workflow and
all that it imports.
"""
