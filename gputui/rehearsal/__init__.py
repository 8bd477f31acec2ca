"""A step of training on tensors without data, in the user's Python: what it would ask of a GPU's allocator.

`gputui.sources.rehearsal` runs `run.py` as a program; it needs PyTorch and nothing of gputui.
`measure.py` takes the same steps on a GPU, for the plugin of pytest.
"""
