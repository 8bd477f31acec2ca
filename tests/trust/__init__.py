"""In a stranger's training job, on a shared machine: neither can be hurt."""
