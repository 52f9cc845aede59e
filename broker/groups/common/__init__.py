"""The parts that both kinds of groups share: settings, deadlines, records and output.

Pure; imports nothing else of the groups.
"""
