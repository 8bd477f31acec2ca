"""Inside running processes: the attach screens, lines and documents, recorded steps, maps for PyTorch's viewer."""
