"""What held the memory when a request for more failed, kept in a file that outlives the program.

In comes PyTorch's call in the thread that asked, before the exception is raised, or the exception that ends the
program. Out goes one file, and one line on standard error at the end. Until an error, nothing runs but what registers
the observer.

- `observer`: registers with PyTorch, takes the time for a look, and says the last line. Begin here.
- `error_look`: the look at the error. `files`: the files, complete or not at all, bounded in number and size.
- `unreported`: errors that PyTorch's observer does not hear of, told by their text.
- `ended_threads`: an error that ends a thread only.
"""
