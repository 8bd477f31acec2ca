"""One module for each command, with `run(arguments, settings)`, which returns the exit status."""
