"""The record of this machine: a file that takes snapshots for weeks, and reports about any part of that time.

`shares` divides the time of GPUs among users and jobs, `store` keeps it in SQLite at a path of `place`, `report` adds
it up. `idle` reads since when GPUs have been held and not used.
"""
