"""Pure reasoning over the model: where the memory went, what `empty_cache()` would do, what changed, what to do.

In: objects of `gputui.model`. Out: figures, sentences and documents. Each room may import from the rooms above it:

owners      who holds a block, and how that is named
memory      how much is where, to the byte; what is releasable and what is stuck
tensors     the list of tensors, grouped, sorted and filtered as the user chose
serving     an inference server: how it divides the device, and its KV cache
step        a recorded step: its phases, its peak, and who was alive
whatif      what other settings, batches or GPUs would have taken
advice      findings, each with what to do, made by one rule each; what counts as a leak is in `advice/leaks`
failure     an out-of-memory error: what was asked for, who held the memory, what would have been enough
moment      from a probe's messages to the `TargetMoment` that the screens show
answer      the verdict, which stands first on the screens, and findings that do not flicker
check       what a step without a GPU needs, against a budget and a baseline
documents   the results as JSON, or as files that PyTorch's own viewer opens

`machine` is about the machine: what is wrong with its devices, processes and host.
`ranks` compares the processes of a job; `filtering` reads what the user types into a filter.
"""
