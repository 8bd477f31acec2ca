"""The machine: devices with their readings, host and processes, and all of it at one moment (`snapshot`).

`device_readings` declares every reading of a device (`reading_declaration` says with what, `profile_readings` those of
true utilisation), `device` holds their values. `host`, `process` and `owner` (whose a process is) describe the rest,
`programs` and `secrets` command lines, `signals` what can be sent, `finding` what is wrong.
"""
