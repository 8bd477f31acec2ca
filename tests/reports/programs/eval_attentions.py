"""An evaluation loop joins what the model returns, attentions of all layers included, on the device."""

import torch
from resting import FIXED, bytes_of, rest
from torch import nn


class Encoder(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(layers))

    def forward(self, x):
        attentions = []
        for layer in self.layers:
            x = layer(x)
            attentions.append(x @ x.transpose(1, 2))
        return {"logits": x.mean(1), "attentions": tuple(attentions)}


def joined(old, new):
    if isinstance(new, tuple):
        return tuple(joined(a, b) for a, b in zip(old, new, strict=True))
    return torch.cat((old, new))


class EvalLoop:
    def __init__(self, model):
        self.model = model

    def run(self, batches):
        all_preds = None
        for batch in batches:
            outputs = self.model(batch.cuda())
            logits = (outputs["logits"],) if FIXED else (outputs["logits"], outputs["attentions"])
            all_preds = logits if all_preds is None else joined(all_preds, logits)  # keeps
        rest(bytes_of(tensor for part in all_preds[1:] for tensor in part))


with torch.no_grad():
    EvalLoop(Encoder().cuda()).run([torch.zeros(8, 256, 128) for _ in range(24)])
