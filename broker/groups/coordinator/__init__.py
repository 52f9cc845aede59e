"""The coordinator of one partition of `__consumer_offsets`: it finds the group and handles the request.

Pure; may import every other pure room of the groups.
"""
