"""How much of the program's time the probe takes.

- `pace`: how often automatic looks are taken: 1 % of the time, more right after somebody has attached,
  and at the same moments in all ranks of a job.
- `budget`: what a look asks for, and what one stop of it may hold: whether there is time for a map or a scan.
- `meter`: counts within a stop, and says when to leave off. `turns`: where the next look goes on.
"""
