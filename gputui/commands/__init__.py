"""What the command line can do, one module for each command; each has `run(arguments, settings) -> exit status`."""
