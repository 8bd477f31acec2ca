"""What only a GPU can tell: where it differs from what gputui takes for granted. `python -m benchmarks.real_gpu --help`.

`place`: where programs run, and with what. `parts`: the table of what is done. What is done beside a training:
`readings` with `smi_rows`, `nvml_calls`, `attaching`. Alone: `releases`, `sizes`, `cost`, `running_out`, `steps`.
`report`: the document and the text; `nameless`: what is taken out of them. `result`: what a part says.
"""
