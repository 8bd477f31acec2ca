"""Reading Python objects without running any of the program's code.

In comes any object of the program, which may be hostile. Out comes what it is, what it is called and what it holds.

- `plain`: types, names and dictionaries, by functions of C. All else here relies on it. Begin here.
- `kinds`: what a value is, told by its type. `attributes`, `functions`, `opaque`: what an object, a function, or an
  object of C such as a generator holds. `torch_types`: names for the program's types in annotations.
- `stacks`, `frame_variables`: the threads' frames, their variables, and whether a thread is in a backward pass.
- `threads`: which threads every look reads, and whether any thread is freeing an object.
- `heap`: all of Python's objects, as `listing` lists them. `handles`: an object's address, and whether the same object
  is still there.
"""
