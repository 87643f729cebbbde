"""Trains a small network on the digits of several labs, each of which runs this beside its daemon:

    digits_torch.py NODE.toml DIGITS.csv PLAN.json WEIGHTS.pt

Each row's gradient is clipped here, tensor by tensor, and only sums go to the daemon. A batch is all
rows of the lab: taking a random part of them gains no privacy.
"""

import sys

import numpy as np
import torch
from torch.nn import Linear, Sequential, Tanh
from torch.nn.functional import cross_entropy

from undertone_node import Daemon
from undertone_node.torch import clip_and_sum, step

#: As in the plan: data.clip = { kind = "tensors", radius = … }.
RADII = {"0.weight": 0.5, "0.bias": 0.2, "2.weight": 0.7, "2.bias": 0.3}

config, table, plan, weights = sys.argv[1:]
rows = torch.from_numpy(np.loadtxt(table, delimiter=",", dtype=np.float32))
batch = rows[:, :-1] / 16, rows[:, -1].long()

torch.manual_seed(7)  # All labs begin with the same model.
model = Sequential(Linear(64, 16), Tanh(), Linear(16, 10))


def part():
    return clip_and_sum(model, cross_entropy, batch, RADII)


rounds = Daemon(config).rounds(part(), plan=plan, records=len(rows))
for mean in rounds:
    step(model, mean, rate=1.5)
    if rounds.more:
        rounds.hand_over(part())

right = (model(batch[0]).argmax(1) == batch[1]).double().mean()
print(f"{right:.0%} of this lab's digits, at ε = {rounds.wait()['epsilon']:.2f}")
torch.save(model.state_dict(), weights)
