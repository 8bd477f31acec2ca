"""On the path of a program whose looks a test drives: automatic looks come as soon as they are asked for.

The viewer asks for the next when the last has come. How far apart looks are otherwise is tested by itself.
"""

from gputui.probe import pace

pace.MIN_INTERVAL_S = 0.0
pace.SHARE_OF_TIME = float("inf")
