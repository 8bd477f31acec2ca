"""Why a request for GPU memory failed, who held the memory, and what would have been enough."""
