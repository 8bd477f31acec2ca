"""Who holds a block of memory, and how that is said.

In: the allocator's blocks and the storages that the probe found. Out: an `Owner` for each live block.
`owners` joins the two by address; `tensor_paths` takes a name apart; `earlier_names` adds what an earlier look knew;
`changes` compares two moments; `names` and `families` put many names into few words.
"""
