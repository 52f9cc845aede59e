"""The Streaming Controller (SC). `streaming_controller.py` wires its parts; the sub-packages form layers, which an
import contract checks.
"""
