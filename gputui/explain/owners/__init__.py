"""Who holds a block of memory, and how a sentence names the owner.

In: the allocator's blocks and the storages that the probe found. Out: an `Owner` for each live block. `owners` joins
the two by address; `tensor_paths` takes a name apart; `earlier_names` adds names that an earlier look found; `changes`
compares two moments; `names`, `families`: many names in few words; `not_yet`: memory that looks have yet to name.
"""
