"""The viewer's end of the probe: finds probes, talks to them, and makes model objects of their messages.

`client` is a connection to one probe, `far` one to a probe on another machine; `messages` checks messages. `feed` is a
thread that talks to one probe for the screens, `one_moment` does so once for a command, and `garbage` asks what only
reference cycles keep. `listing` finds probes (with `socket_folders`), `elsewhere` those in containers, `presence` which
processes have one; `loading` puts one into a process. `turns` shares time among many probes. `exit_reason` says
how a process ended, `main_thread_place` in which line its main thread is.
"""
