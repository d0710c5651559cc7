import itertools

import numpy as np
import pytest
from onnx import helper

from accel.frontend.quantize.quantization_targets import Targets
from accel.frontend.quantize.scale_constraints import choose_scales, related_scale_groups
from accel.frontend.quantize.scale_grid import Grid, Loss


def targets(sums: list[tuple[str, str]], moves: list[tuple[str, str]]) -> Targets:
    additions = tuple(helper.make_node("Add", pair, ["".join(pair)]) for pair in sums)
    return Targets((), additions, tuple("abcdefg"), tuple(moves))


def test_operands_and_what_moves_them_are_tied_but_not_the_sum() -> None:
    assert related_scale_groups(targets([], [])) == [[name] for name in "abcdefg"]
    assert related_scale_groups(targets([("a", "c"), ("c", "f"), ("g", "g")], [("b", "d")])) == [
        ["a", "c", "f"],
        ["b", "d"],
        ["e"],
        ["g"],
    ]
    assert related_scale_groups(targets([("a", "d"), ("b", "e")], [("a", "b")]))[0] == ["a", "b", "d", "e"]


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_in_a_group_is_the_best_of_all_that_differ_by_powers_of_two(seed: int) -> None:
    random, grid = np.random.default_rng(seed), Grid(3)
    losses = {name: Loss(random.uniform(1, 9), dict.fromkeys(range(-5, 4), 0.0), {}) for name in "abc"}
    for loss in losses.values():
        loss.errors.update((index, random.uniform()) for index in list(loss.errors))

    def share(option: tuple[int, ...]) -> float:
        return sum(loss.errors[index] / loss.energy for loss, index in zip(losses.values(), option, strict=True))

    every = itertools.product(range(-5, 4), repeat=3)
    best = min((option for option in every if len({index % 3 for index in option}) == 1), key=share)
    assert choose_scales(["abc"], losses, grid) == dict(zip("abc", best, strict=True))
    alone = {name: min(loss.errors, key=loss.errors.__getitem__) for name, loss in losses.items()}
    assert choose_scales("abc", losses, grid) == alone


def test_a_tensor_of_zeros_weighs_nothing() -> None:
    losses = {"a": Loss(0.0, {0: 0.0, 1: 0.0}, {}), "b": Loss(4.0, {0: 2.0, 1: 1.0}, {})}
    assert choose_scales(["ab"], losses, Grid(2)) == {"a": 1, "b": 1}
