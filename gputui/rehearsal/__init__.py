"""A step of training on tensors without data, in the user's Python: what it would ask of a GPU's allocator.

`gputui.sources.rehearsal` runs `run.py` as a program; it needs PyTorch and nothing of gputui.
`rehearse.py` rehearses a function, `script.py` a program: `following.py` says in which part of a step that is,
`host.py`, `surroundings.py` and `of_transformers.py` what is done otherwise, `ranks.py` has the other ranks.
`tensors.py` are the tensors without data, `asked.py` reads which device a program means, `gpu.py` is the GPU that is
not there, `choices.py`, `autocast.py`, `accumulation.py` and `reductions.py` what PyTorch does only there.
`measure.py` takes the same steps on a GPU, for the plugin of pytest.
"""
