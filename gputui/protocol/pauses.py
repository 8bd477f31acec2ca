"""How long one stop of the attached program may take, in seconds: agreed on by viewer and probe."""

AUTOMATIC_S = 0.025
"""The limit in an automatic look, unless the viewer asks for another."""
LONGEST_S = 0.1
"""The limit in a look on request, and the highest that a viewer can ask for."""
SHORTEST_S = 0.001
"""The lowest limit that a viewer can ask for."""
