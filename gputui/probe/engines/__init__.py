"""Inference engines: what a server's own objects say about its memory, its KV cache and its requests.

In: the variables of running functions, to find the engine's objects; later only those, held by weak references. Out:
the fields of `model.attached.serving.Serving`. None of the engine's code runs, and of tensors only a shape is read.

`facts` says what is read where, in which version; `read` finds the objects and reads them.
"""
