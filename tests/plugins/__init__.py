"""pytest plugins, loaded by name with -p."""
