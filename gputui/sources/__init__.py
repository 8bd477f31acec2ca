"""Read the world and return model objects: NVML, the host, processes, the probe, a demonstration."""
