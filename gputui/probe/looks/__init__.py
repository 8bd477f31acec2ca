"""A look: counters, block map and inventory, read in bounded stops of the program, and sent as a message.

In: a request for a look, by a user or automatic. Out: the look's message, with what the look cost.

- `looks`: takes one look at a time: asks the main thread, plans the stops, and keeps to what looks may cost.
- `stops`: what each stop reads, and how the program is kept still meanwhile.
- `torch_reader`: what is read in a stop, and what the probe's own thread computes from it afterwards. A part that fails
  becomes a sentence among the problems.
- `counters`: the allocator's counters between looks. `process_groups`: how many collectives were launched.
- `top_watch`: when to look near the top of a step, helped by `swing` and `top_moments`.
- `messages`: the look as a message of bounded size, encoded in pieces, so that the program's threads keep running.

How often automatic looks are taken is in `pace/pace.py`, what one stop may read in `pace/budget.py`.
"""
