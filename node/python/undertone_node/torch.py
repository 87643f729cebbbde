"""Sums of clipped gradients from PyTorch, for plans with ``clipped = "by-program"``::

    sums = clip_and_sum(model, loss, (inputs, targets), radii={"0.weight": 0.5, "0.bias": 0.1})
    rounds = daemon.rounds(sums, plan="plan.json", records=len(inputs))

Each row's gradient is clipped by itself, tensor by tensor, before the sum: the plan's claim rests
on that. A batch is all rows of a party; taking a random part of them gains no privacy here."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Mapping, Tuple, Union

import torch

try:
    from torch.func import functional_call, grad, vmap
except ImportError:  # PyTorch 1.13 has them elsewhere.
    from functorch import grad, vmap
    from torch.nn.utils.stateless import functional_call

Tensors = Dict[str, torch.Tensor]
#: The loss of one row: of the model's output for it and its target, one number.
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def clip_and_sum(
    model: torch.nn.Module,
    loss: Loss,
    batch: Tuple[torch.Tensor, torch.Tensor],
    radii: Union[float, Mapping[str, float]],
    *,
    at_once: int = 256,
) -> Tensors:
    """The sum of all rows' gradients, each clipped, by the names of the model's parameters.

    ``batch`` is (inputs, targets) with a row each; ``loss`` takes the output and target of a batch
    of one row and gives one number. ``radii`` has the greatest length that a row's gradient of each
    tensor may have (a clip of kind "tensors"), or of all tensors together (of kind "l2"), as the
    plan says. ``at_once`` is how many rows' gradients are held in memory at once. Rows without a
    finite gradient count as 0.

    Sums are of float64, as the claim needs. A model whose layers mix rows, such as BatchNorm in
    training, has no gradient of one row, and is refused: ValueError."""
    inputs, targets = batch
    if len(inputs) != len(targets):
        raise ValueError(f"{len(inputs)} rows of inputs, {len(targets)} of targets")
    _refuse_mixing(model)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if isinstance(radii, Mapping) and set(radii) != set(names):
        odd = sorted(set(radii) ^ set(names))
        raise ValueError(f"radii and the model's trained parameters differ: {', '.join(odd)}")
    parameters = dict(model.named_parameters())
    sums = {name: torch.zeros(parameters[name].shape, dtype=torch.float64) for name in names}
    for gradients in _gradients(model, loss, inputs, targets, at_once):
        clipped = _clipped({name: gradients[name] for name in names}, radii)
        for name in names:
            sums[name] += clipped[name].sum(0)
    return sums


def _clipped(gradients: Tensors, radii: Union[float, Mapping[str, float]]) -> Tensors:
    """Rows, each within its radius. A length is taken a little too long rather than too short."""
    rows = {name: each.detach().cpu().double() for name, each in gradients.items()}
    squares = {name: (each.flatten(1) ** 2).sum(1) for name, each in rows.items()}
    whole = torch.stack(list(squares.values())).sum(0)
    fine = torch.isfinite(whole)

    def factor(square: torch.Tensor, radius: float) -> torch.Tensor:
        length = square.sqrt() * (1 + 1e-9)
        return torch.where(length > radius, radius / length.clamp(min=1e-300), torch.ones_like(length))

    def held(name: str) -> torch.Tensor:
        own = factor(squares[name], radii[name]) if isinstance(radii, Mapping) else factor(whole, radii)
        shape = [-1] + [1] * (rows[name].dim() - 1)
        clean = torch.where(fine.reshape(shape), rows[name], torch.zeros_like(rows[name]))
        return clean * torch.where(fine, own, torch.zeros_like(own)).reshape(shape)

    return {name: held(name) for name in rows}


def _gradients(
    model: torch.nn.Module, loss: Loss, inputs: torch.Tensor, targets: torch.Tensor, at_once: int
) -> Iterator[Tensors]:
    """Each row's gradient of each parameter, a part of the rows at a time."""
    parameters = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
    kept = {name: each.detach() for name, each in model.named_parameters() if not each.requires_grad}
    kept.update((name, each) for name, each in model.named_buffers())

    def of_row(changed: Tensors, row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        output = functional_call(model, {**kept, **changed}, (row.unsqueeze(0),))
        return loss(output, target.unsqueeze(0))

    each_row = vmap(grad(of_row), in_dims=(None, 0, 0), randomness="different")
    for begin in range(0, len(inputs), at_once):
        yield each_row(parameters, inputs[begin : begin + at_once], targets[begin : begin + at_once])


def _refuse_mixing(model: torch.nn.Module) -> None:
    """Batch normalisation makes a row's output depend on the others'."""
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.training:
            raise ValueError(f"layer {name!r} mixes rows: call model.eval(), or use GroupNorm")


def step(model: torch.nn.Module, mean: Mapping[str, Any], rate: float) -> None:
    """Takes ``rate`` times the mean gradient off the model's parameters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in mean:
                change = torch.as_tensor(mean[name]).to(parameter)
                parameter -= rate * change.reshape(parameter.shape)


__all__ = ["Loss", "Tensors", "clip_and_sum", "step"]
