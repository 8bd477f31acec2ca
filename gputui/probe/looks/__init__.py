"""A look: counters, block map and inventory, taken in bounded stops of the program, and made a message.

In comes a request for a look, on request or automatic. Out goes the look's message, with what it cost.

- `looks`: takes one look at a time: asks the main thread, plans the stops, and keeps to what looks may cost.
- `stops`: what each stop takes, and how the program is kept still meanwhile.
- `torch_reader`: what is read in a stop, and what is worked out of it afterwards in the probe's own thread. Each part
  that fails becomes a sentence among the problems.
- `counters`, `swing`: the allocator's counters between looks, and when memory is near the top of a step.
- `messages`: the look as a message of bounded size, encoded in pieces, so that the program's threads keep running.

How often automatic looks are taken is in `pace/pace.py`, what one stop may hold in `pace/budget.py`.
"""
