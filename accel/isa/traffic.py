"""Bytes over the bus."""

from accel.isa.family import Boxes


def traffic(boxes: Boxes) -> tuple[int, int]:
    """Bytes read and bytes written by the copies of a launch; fetching instructions is not counted."""
    moved = boxes.rows * boxes.row_bytes
    return int(moved[~boxes.write].sum()), int(moved[boxes.write].sum())
