"""What would be: other settings, another batch, another GPU, a server that has not started."""
