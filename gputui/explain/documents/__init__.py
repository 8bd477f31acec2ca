"""Results in the forms that programs read: `attach` and `whatif` as JSON, `memory_viz` as PyTorch's own snapshots."""
