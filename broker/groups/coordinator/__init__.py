"""The coordinator of one partition of the offsets topic: it finds the group and handles the request. Pure; may import
every pure room of the groups.
"""
