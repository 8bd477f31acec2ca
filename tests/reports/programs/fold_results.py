"""Cross validation collects what the evaluator returns for each fold, predictions of all batches included."""

import torch
from resting import FIXED, bytes_of, rest
from torch import nn


class Evaluator:
    def __init__(self, batches):
        self.batches = batches

    def evaluate(self, model):
        result = {"loss": 0.0, "preds": [], "labels": []}
        for batch in self.batches:
            logits = model(batch.cuda())
            result["loss"] += logits.mean().item()
            result["preds"].append(logits.cpu() if FIXED else logits)
            result["labels"].append(torch.zeros(len(batch), dtype=torch.int64))
        return result


def cross_validate(folds):
    xval_results = []
    evaluator = Evaluator([torch.zeros(512, 256) for _ in range(10)])
    for _ in range(folds):
        model = nn.Linear(256, 2048).cuda()
        with torch.no_grad():
            xval_results.append(evaluator.evaluate(model))  # keeps
    rest(bytes_of(pred for result in xval_results for pred in result["preds"] if pred.is_cuda))


cross_validate(6)
