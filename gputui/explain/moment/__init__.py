"""From the messages of a probe to the moment that the screens show.

`probe_state` puts it together, in the feed's thread; `limits`: what a look could not know; `actions`: what can be run
in the program; `disconnects`: how a conversation ended.
"""
