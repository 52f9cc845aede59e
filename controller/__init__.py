"""The Streaming Controller (SC), which decides which SPU holds and leads which partition.

`streaming_controller.py` wires its parts. The sub-packages form layers, which an import contract checks. A kind of
object with a controller of its own gets a room of its own: see "Adding a kind of object" in CONTRIBUTING.md.
"""
