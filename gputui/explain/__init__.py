"""Pure reasoning over the model: where the memory went, what `empty_cache()` would do, what changed, what to do."""
