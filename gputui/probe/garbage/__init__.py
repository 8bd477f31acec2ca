"""What `gc.collect()` would free, to the byte: the probe reads and proves, the viewer finds out what to prove.

In: a viewer's requests. Out: the references among all Python objects, as addresses, a part at a time; then what a
collection would free of the objects of which the viewer found that only they refer to each other. Between two requests,
only a few addresses are kept, with which the next part finds its beginning.

- `references`: reads one part of the references in one stop.
- `proof`: proves that nothing refers to some objects from outside, as Python's collector does.
- `going`: finds the storages that are freed with such objects, by the references of Python and C++.
"""
