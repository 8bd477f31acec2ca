"""Whose a tensor is: each storage is counted once, under the first owner that is recorded for it.

In: models, optimizers and tensors, with the names that a search found. Out: storages with owner, category and bytes.

- `storages`: the ledger, in which all others record. `views`: storages of which the tensors show only a small part.
- `entries`: the fields of one storage.
- `model_states`, `optimizer_states`, `gradients`: the tensors of a model in training. A new category goes there.
- `cache_names`: which variable names mean a cache of keys and values.
- `reducer_buckets`: the gradient buckets of DistributedDataParallel, recognised by their sizes.
- `autograd`: the tensors that the autograd graph saves for the backward pass.
- `wrapped_tensors`: tensors without memory of their own, such as DTensor, whose memory is in inner tensors.
"""
