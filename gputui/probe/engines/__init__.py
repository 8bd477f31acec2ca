"""Inference engines: what a server says itself about its memory, its cache of keys and values, and its requests.

In: the frames of all threads, once; later only the engine's own objects, held by weak references. Out: the fields of
`model.attached.serving.Serving`. Attributes are read plainly: none of the engine's code runs, and no tensor is touched.

`facts` says what is read where, in which version; `read` finds the objects and reads them.
"""
