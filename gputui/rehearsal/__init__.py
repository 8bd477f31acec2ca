"""A step of training on tensors without data, in the user's Python: what it would ask of a GPU's allocator.

`gputui.sources.rehearsed` runs `run.py` as a program; it needs PyTorch and nothing of gputui.
"""
