"""What is known about another process without touching it.

`process_facts` reads what /proc says, by which refusals are decided; `images` its libraries, `interpreter` its CPython,
`python_frames` where its main thread is. `foreign_files` opens files below its root, which are not to be trusted.
"""
