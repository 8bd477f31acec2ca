"""From variables to modules, optimizers, containers and tensors, level by level, so that the shortest name wins.

In come namespaces: the variables of frames, of modules, and of whatever keeps things alive beside them. Out come finds,
each with a name that a person would write.

- `search`: the search, and what it finds. `variables`: what one value leads to. A new way into a type goes there.
- `modules`: the program's models with the names of their parts. `program_modules`: the globals of its Python modules.
- `containers`, `growing_lines`: lists and dictionaries of tensors, and the lines of code that add to them.
- `records`: what is too long to be searched is read in loops of C.
- `keepers`: exceptions and notebook outputs, which keep tensors that no variable has. A new kind of keeper goes there.
- `suspended`: coroutines and generators between two turns. `other_threads`: threads beyond the first sixteen, in turns.
- `rests`: what one search learns for the next, and which objects make up trees and chains.
"""
