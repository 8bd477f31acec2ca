"""A step of training on tensors without data, in the user's Python: what it would request of a GPU's allocator.

`gputui.sources.rehearsal` runs `run.py` as a program; this package needs PyTorch and nothing else of gputui.
`rehearse.py` rehearses a function (its forms: `training.py`), `script.py` a program: `following.py` tells in which part
of a step that is, `host.py`, `surroundings.py`, `of_transformers.py` replace what must not run as it is. `tensors.py`
has tensors without data, `results.py` their sizes, `asked.py` the device that a program means, `gpu.py` the GPU that is
not there, `ranks.py` the other ranks. `choices.py`, `autocast.py`, `accumulation.py`, `reductions.py` do what PyTorch
does only on a GPU; `requests.py` records. `measure.py` takes the steps on a real GPU, for the plugin of pytest.
"""
