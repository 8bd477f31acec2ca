"""What held the memory when a request for more failed, kept in a file that outlives the program.

PyTorch calls an observer in the thread that asked for memory, before the exception is raised; other errors are known
once they have ended the program. An error gets a file; where it ends the program, a line on standard error names the
file. Until an error, nothing runs but what registers the observer.

- `observer`: registers with PyTorch, takes the time for a look, and says the last line. Begin here.
- `error_look`: the look at the error. `files`: the files, complete or not at all, bounded in number and size.
- `unreported`: errors for which PyTorch calls no observer, recognised by their text.
- `ended_threads`: the line about the file where an error ends only a thread.
"""
