"""The source of a small training program, and what it does after its first step."""

TRAINING = """
    import gputui.probe, sys, torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=False)
        model(torch.randn(32, 64, device=device)).sum().backward()
        optimizer.step()

    step()
    print("ready", device, flush=True)
"""
FOR_EVER = """
    import time
    end = time.monotonic() + 600
    while time.monotonic() < end:
        step()
        time.sleep(0.01)
"""
"""It pauses between two steps, and leaves the processor to the viewer; to a probe it does not wait in them."""
ASLEEP = """
    input()
    print("awake", flush=True)
"""
