"""From the messages of a probe to the `TargetMoment` that the screens show.

`probe_state` puts the moment together, in the feed's thread; `limits`: what a look could not know; `actions`: what the
user can have run in the program; `disconnects`: how a conversation with a probe ended.
"""
