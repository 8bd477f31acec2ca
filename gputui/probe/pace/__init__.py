"""How much of the program's time the probe takes.

- `pace`: how often automatic looks are taken: for 1 % of the time, for more right after somebody has attached, and at
  the same moments in all ranks of a job.
- `budget`: the request for a look, and what one stop of it may read: whether there is time for a map or a scan.
- `meter`: counts the work within a stop, and says when to end it. `turns`: where the next look goes on.
"""
