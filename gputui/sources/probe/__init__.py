"""The viewer's end of the probe: finding probes, talking to them, and turning their messages into the model.

In: a PID. Out: the model's messages, and moments of `explain.moment`. `feed` is what the screens have: a thread that
holds a conversation with one probe (`client`), and `messages` checks every message. `listing` finds the probes
(`socket_folders`, `presence`, `elsewhere`), `loading` puts one into a process. `far` talks
to a probe on another machine. Many probes share the time of the viewer (`turns`). `exit_reason` says how a process
ended, `main_thread_place` where it is meanwhile.
"""
