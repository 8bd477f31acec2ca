"""Days of this machine in a file: snapshots come in, a report about any time of them comes out.

`shares` says whose each second of a GPU was, `store` keeps it in SQLite, `report` adds it up.
"""
