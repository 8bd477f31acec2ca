"""What is known about another process without touching it.

`process_facts` is what /proc says, from which refusals are decided; `images` its libraries, `interpreter` its CPython,
`python_frames` where its main thread is. `foreign_files` opens what lies below its root, which nobody may trust.
"""
