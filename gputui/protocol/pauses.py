"""How long one stop of the attached program may take, in seconds: agreed on by viewer and probe."""

AUTOMATIC_S = 0.025
"""In an automatic look, unless the viewer asks for another limit."""
LONGEST_S = 0.1
"""In a look on request, and the highest limit that a viewer can ask for."""
SHORTEST_S = 0.001
"""The lowest limit that a viewer can ask for."""
