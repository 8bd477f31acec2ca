"""What lasts from look to look, and the climb: the way from tensors without a variable up to what holds them.

In come the finds of one look; what is kept of them makes the next look cheaper. Only numbers, names and weak references
are kept: nothing of the program's stays alive.

- `memory`: all that one look keeps for the next. Begin here.
- `climb`: from a tensor without a name to its referrers, level by level. `climb_stops`: one level as one stop.
- `cycles`: whether only reference cycles keep what a climb has come to, and which blocks they keep.
- `remembered`: containers in which much memory was found; each look reads them first.
- `container_tensors`: the tensors in a remembered container, which a look reads on from where the last look stopped.
  `links`: how far looks came down a tree or a linked list of objects.
"""
