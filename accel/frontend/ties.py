"""Activations whose scales must differ by powers of two, for additions to be integer additions."""

from collections.abc import Iterable, Mapping, Sequence

from accel.frontend.grid import Grid, Loss
from accel.frontend.targets import Targets


def tied(targets: Targets) -> list[list[str]]:
    """The activations in groups: the operands of an addition, or a tensor and the one it was moved to, share theirs.

    Both the groups and their members are in the order of ``targets.activations``.
    """
    parent = {name: name for name in targets.activations}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    operands = [(str(node.input[0]), str(node.input[1])) for node in targets.additions]
    for first, second in (*operands, *targets.moves):
        parent[root(first)] = root(second)
    groups: dict[str, list[str]] = {}
    for name in targets.activations:
        groups.setdefault(root(name), []).append(name)
    return list(groups.values())


def choose(groups: Iterable[Sequence[str]], losses: Mapping[str, Loss], grid: Grid) -> dict[str, int]:
    """For each tensor, the index of its scale on ``grid``: that of least error, in a group of one.

    In larger ones, the choice whose errors, each as a share of its tensor's energy, have the least sum.
    """
    found: dict[str, int] = {}
    for group in groups:
        # each residue is a scale within the octave
        options = [{name: _best(losses[name], grid, residue) for name in group} for residue in range(grid.density)]
        shares = [sum(_share(losses[name], index) for name, index in option.items()) for option in options]
        found |= options[shares.index(min(shares))]
    return found


def _best(loss: Loss, grid: Grid, residue: int) -> int:
    return min((index for index in loss.errors if index % grid.density == residue), key=loss.errors.__getitem__)


def _share(loss: Loss, index: int) -> float:
    return loss.errors[index] / (loss.energy or 1)
