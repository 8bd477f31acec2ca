"""The ways into a program: PEP 768 (`remote_debugging`), a pending call by ptrace (`pending_call`), and gdb (`by_gdb`).

`payload` is what is put there: `bootstrap.py`, which runs first, and the probe's modules. `x86_64` is the code that
queues a call on that processor, `data_region` where it finds everything.
"""
