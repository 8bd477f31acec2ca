"""What lasts from look to look, and the search for tensors without a variable, which goes up from object to holder.

In come the finds of one look; what comes out makes the next one cheaper. Only numbers, names and weak references are
kept: nothing of the program's stays alive.

- `memory`: all that one look keeps for the next. Begin here.
- `climb`: from a tensor without a name upwards, by referrers. `climb_stops`: one level of it as one stop.
- `cycles`: whether only reference cycles keep what a climb has come to, and the blocks kept so.
- `remembered`: what stands above such tensors, and containers in which much was found; read first by each look.
- `container_tensors`: the tensors in those, read on from where the last look stopped. `links`: how far looks came down
  a tree or a linked list of objects.
"""
