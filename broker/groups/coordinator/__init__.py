"""The coordinator of one partition of `__consumer_offsets`.

It finds the group and handles the request. Pure; may import every other pure room of the groups.
"""
