"""What `gc.collect()` would free, to the byte: the probe reads and proves, the viewer finds out what to prove.

In come a viewer's requests. Out go the references among all of Python's objects, as addresses, a part at a time; and
what a collection would free of the objects that the viewer has found to be kept by each other alone. Nothing is kept
between two requests.

- `references`: one part of the references, in one stop.
- `proof`: whether nothing leads to some objects from outside, as Python's collector proves it.
- `going`: which storages go with such objects, by the references of Python and C++.
"""
