"""Searches variables for modules, optimizers, containers and tensors, level by level, so that the shortest name wins.

In come namespaces, the variables of frames and modules, and values that something else keeps alive. Out come modules,
optimizers, containers and tensors, each with a name that a person would write.

- `search`: the search itself. `variables`: what one value holds. How to read another type of object goes there.
- `modules`: the program's models with the names of their parts. `program_modules`: the globals of its Python modules.
- `containers`: lists and dictionaries of tensors. `container_lines`, `growing_lines`: the lines of code that fill them.
- `records`: reads containers that are too long for the search, in loops of C.
- `keepers`: exceptions and notebook outputs, which keep tensors that no variable has. A new kind of keeper goes there.
- `suspended`: coroutines and generators that wait. `other_threads`: threads beyond the first sixteen, in turns.
- `rests`: what one search remembers for the next, and which objects make up trees and chains.
"""
