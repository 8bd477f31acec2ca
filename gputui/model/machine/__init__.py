"""The machine: devices with their readings, host and processes, and all of it at one moment (`snapshot`)."""
