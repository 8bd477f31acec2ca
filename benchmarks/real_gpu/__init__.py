"""What only a GPU can tell: where it is not as gputui takes it. See `python -m benchmarks.real_gpu --help`.

`place`: where programs run, and with what; `viewer`: attaches to them. `parts`: the table of what is done. Beside a
training: `readings` with `smi_rows`, `nvml_calls`, `attaching`. Alone: `releases`, `sizes`, `cost`, `running_out`,
`steps`. `result`: what a part says. `report`: the document and the text; `nameless`: what is taken out of them.
"""
