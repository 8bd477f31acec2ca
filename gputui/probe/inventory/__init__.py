"""The inventory of one stop: every storage of the program's tensors, each with an owner and a category.

In come the frames of all threads and what the looks before have kept (`names/memory.py`). Out go plain lists and
dictionaries, the fields of `gputui.model.attached.tensors.Inventory`; no object of the program is in them.

- `inventory`: the entrance, `take_inventory`. `run`: what is asked in which order, and who gets how much of the time.
- `owned`: what models and optimizers own. `saved`: what the autograd graph keeps. `other_tensors`: all other tensors.
- `remembered_reading`: the containers that were remembered because much memory was found in them.

These work in the probe's own thread, after the stop, on numbers and names alone:

- `activations`: to which module an activation belongs, and which variable keeps its graph.
- `lines`: which lines of the program assign the variables that keep a graph, and which make certain calls.
"""
