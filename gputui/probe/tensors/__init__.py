"""Whose a tensor is: each storage is counted once, under the first owner that is recorded for it.

In come models, optimizers and tensors with the names that a search has found. Out go storages with owner, category and
bytes.

- `storages`: the ledger, in which everybody records. `views`: how much of a storage the tensors show that were found.
- `entries`: what is said of one storage.
- `model_states`, `optimizer_states`, `gradients`: the tensors of a model in training. A new category goes there.
- `cache_names`: which names are of caches of keys and values.
- `reducer_buckets`: the gradient buckets of DistributedDataParallel, by their sizes.
- `autograd`: what the graph keeps for the backward pass.
- `wrapped_tensors`: tensors that have their memory in other tensors.
"""
