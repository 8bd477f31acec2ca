"""One module for each command; its `run(arguments, settings)` returns the exit status.

A room imports only from rooms below it in this list.

- `forecast`: what would be: other settings, another batch, another GPU, a server that has not started.
- `files`: what was kept in files: recordings, black boxes, snapshots. `nodes`: many machines.
- `attach`: inside running processes: screens, lines and documents, recorded steps, maps for PyTorch's viewer.
- `machine`: the monitor, printed looks, days kept of a machine. Begin here for how a screen is opened.
- `reach`: how processes are reached: a probe that is put in, `run`, another machine.
- `printed`: reports for people. Modules in no room: `parser`, `progress`, `doctor`.
"""
