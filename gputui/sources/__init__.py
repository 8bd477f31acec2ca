"""What reads NVML, the host, processes, probes, other machines and files, or simulates them; returns model objects."""
