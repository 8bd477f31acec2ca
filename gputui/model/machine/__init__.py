"""The machine: devices with their readings, host and processes, and all of it at one moment (`snapshot`).

`device` has the values of a device, `device_readings` declares them (in the terms of `reading_declaration`; those of
true utilisation in `profile_readings`). `host`, `process` and `owner` (whose a process is) describe the rest, `finding`
what is wrong. `programs` and `secrets` read command lines, and `signals` lists the signals that users can send.
"""
