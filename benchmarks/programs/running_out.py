"""Asks for twice the memory of the device, which takes nothing from other programs, and ends by the error.

Its last line of output is {"allocated_bytes", "requested_bytes"} as PyTorch had them before.
"""

import json

import torch


def main() -> None:
    """Hold some tensors, and ask."""
    held = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (1, 3, 24, 90)]
    requested_bytes = 2 * torch.cuda.get_device_properties(0).total_memory
    figures = {"allocated_bytes": torch.cuda.memory_allocated(), "requested_bytes": requested_bytes}
    print(json.dumps(figures), flush=True)
    held.append(torch.empty(requested_bytes, dtype=torch.uint8, device="cuda"))


if __name__ == "__main__":
    main()
