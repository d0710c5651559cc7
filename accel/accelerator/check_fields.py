"""The bits of instructions: fields lie in words, and no word is two instructions."""

from collections.abc import Sequence

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Compute, Copy, Part
from accel.accelerator.require import require, require_distinct, require_known

_FLOAT_BITS = 32


def check_fields(path: str, fields: Sequence[BitField], word_bits: int) -> None:
    """Fields lie in one 64-bit word each, no two share a bit, and constants fit.

    Raises:
        InvalidAccelerator: ``path`` and the number of the field.
    """
    require_distinct([field.name for field in fields], path)
    for index, field in enumerate(fields):
        at = f"{path}.{index}"
        require(
            field.lsb < word_bits and field.lsb + field.bits <= word_bits,
            at,
            f"{field.name} ends at bit {field.lsb + field.bits}; the last bit is {word_bits - 1}",
        )
        crosses = f"{field.name} has bits {field.lsb} to {field.lsb + field.bits - 1}; it must lie in one 64-bit word"
        require(field.lsb % 64 + field.bits <= 64, at, crosses)
        for other in fields[:index]:
            shares = f"{field.name} shares bits with {other.name}, which ends before bit {other.lsb + other.bits}"
            require(not _mask(field) & _mask(other), at, f"{shares}; each bit may be of one field")
        _check_type(at, field)


def _mask(field: BitField) -> int:
    return ((1 << field.bits) - 1) << field.lsb


def _check_type(at: str, field: BitField) -> None:
    if field.type == "float32":
        require(field.bits == _FLOAT_BITS, at, f"{field.name} is float32 and has {field.bits} bits; it must have 32")
    require(field.type != "signed" or field.bits > 0, at, f"{field.name} is signed and has no bits; it needs 1")
    if field.value is not None:
        require(field.type == "unsigned", at, f"{field.name} is constant and {field.type}; it must be unsigned")
        require(field.value < 1 << field.bits, at, _too_large(field))


def _too_large(field: BitField) -> str:
    return f"{field.value} does not fit the {field.bits} bits of {field.name}, which hold up to {(1 << field.bits) - 1}"


def check_encodings(accelerator: Accelerator) -> None:
    """Every instruction's own fields, or the parts that it is encoded as; and no word is two instructions.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    for index, instruction in enumerate(accelerator.instructions):
        path = f"instructions.{index}"
        check_fields(f"{path}.fields", instruction.fields, accelerator.word_bits)
        if instruction.sequence:
            made = isinstance(instruction, Copy | Compute)
            require(made, f"{path}.sequence", f"a {instruction.kind} is no sequence; only a copy or a compute can be")
            has_fields = f"{instruction.name} has its fields in its parts, and none of its own"
            require(not instruction.fields, f"{path}.fields", has_fields)
            require_distinct(instruction.sequence, f"{path}.sequence")
            parts = [other.name for other in accelerator.instructions if isinstance(other, Part)]
            for at, name in enumerate(instruction.sequence):
                require_known(name, parts, f"{path}.sequence.{at}", "instruction of kind part")
    _check_patterns(accelerator)


def _check_patterns(accelerator: Accelerator) -> None:
    """Of any two instructions that are encoded, some bit is constant in both and differs."""
    patterns: list[tuple[str, int, int]] = []
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.sequence:
            continue
        constants = [field for field in instruction.fields if field.value is not None]
        mask = sum(_mask(field) for field in constants)
        value = sum((field.value or 0) << field.lsb for field in constants)
        for other, other_mask, other_value in patterns:
            require(
                bool((value ^ other_value) & mask & other_mask),
                f"instructions.{index}.fields",
                f"{instruction.name} cannot be told from {other}: some bits must be constant in both and differ",
            )
        patterns.append((instruction.name, mask, value))
