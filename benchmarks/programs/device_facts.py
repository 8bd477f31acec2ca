"""Prints what the first GPU and PyTorch are: {"device", "uuid", "capability", "free_bytes", "torch", "python"}."""

import json
import platform

import torch

gpu = torch.cuda.get_device_properties(0)
facts = {
    "device": gpu.name,
    "uuid": str(getattr(gpu, "uuid", "")),
    "capability": f"{gpu.major}.{gpu.minor}",
    "free_bytes": torch.cuda.mem_get_info(0)[0],
    "torch": torch.__version__,
    "python": platform.python_version(),
}
print(json.dumps(facts), flush=True)
