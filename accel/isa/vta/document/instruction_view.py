"""VTA's instructions in a document, found by what their expressions say and not by their names."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Operation
from accel.errors import InvalidAccelerator
from accel.isa.vta.document.instruction_fields import (
    ACCUMULATE,
    ALU_OPERATIONS,
    ZERO,
    ImmediateWith,
    two_operands,
    with_immediate,
)
from accel.isa.vta.document.nameless_expressions import NamelessStatement, without_names
from accel.util.same_object import SameObject

OperationMode = Literal["accumulate", "zero", "two_operands", "dst", "src"]


@dataclass(frozen=True)
class Gemm:
    """The matrix instruction: its operands by name, and the field that makes it write zeros instead."""

    instruction: Compute
    dst: str
    data: str
    weights: str
    reset: str


@dataclass(frozen=True)
class Alu:
    """The elementwise instruction: its operands by name, and its fields.

    ``codes`` gives the operation of each value of ``opcode``. With ``use_immediate`` the second operand is the field
    ``immediate``, and the first one is ``immediate_with``.
    """

    instruction: Compute
    dst: str
    src: str
    opcode: str
    codes: dict[int, str]
    use_immediate: str
    immediate: str
    immediate_with: ImmediateWith


@dataclass(frozen=True)
class Vta:
    """The two instructions that compute, and the memories by what is in them."""

    gemm: Gemm
    alu: Alu
    microops: str
    data: str
    weights: str
    results: str

    @property
    def memories(self) -> tuple[str, str, str, str]:
        """Names in the order of the kernels: micro-ops, data, weights, results."""
        return self.microops, self.data, self.weights, self.results


@dataclass(frozen=True)
class _Known:
    operation: Operation
    path: str
    does: str  # of the ALU, such as "min"
    mode: OperationMode
    names: NamelessStatement


def instructions_of(accelerator: Accelerator) -> Vta:
    """VTA's instructions in ``accelerator``.

    Raises:
        InvalidAccelerator: it has others, or they compute something else; ``field`` is the path in the document.
    """
    return _instructions(SameObject(accelerator))


@functools.lru_cache(maxsize=16)
def _instructions(same: SameObject[Accelerator]) -> Vta:
    accelerator = same.value
    found = {index: i for index, i in enumerate(accelerator.instructions) if isinstance(i, Compute)}
    gemms: list[Gemm] = []
    alus: list[Alu] = []
    for index, instruction in found.items():
        path = f"instructions.{index}"
        known = [_known(operation, f"{path}.operations.{at}") for at, operation in enumerate(instruction.operations)]
        if all(one.mode in ("accumulate", "zero") for one in known):
            gemms.append(_gemm(instruction, known, path))
        elif all(one.mode not in ("accumulate", "zero") for one in known):
            alus.append(_alu(instruction, known, path))
        else:
            raise _refused(f"{path}.operations", "a VTA multiplies and operates elementwise in two instructions")
    if len(gemms) != 1 or len(alus) != 1:
        counts = f"found {len(gemms)} matrix instructions and {len(alus)} elementwise ones"
        raise _refused("instructions", f"{counts}; a VTA has one of each")
    (gemm,), (alu,) = gemms, alus
    microops = gemm.instruction.microops
    if microops is None:
        raise _refused(f"{_path(accelerator, gemm)}.microops", "a VTA's instructions walk micro-ops; found none")
    data, weights, results = (gemm.instruction.operands[n].memory for n in (gemm.data, gemm.weights, gemm.dst))
    return Vta(gemm, alu, microops.memory, data, weights, results)


def _path(accelerator: Accelerator, role: Gemm | Alu) -> str:
    return f"instructions.{accelerator.instructions.index(role.instruction)}"


def _refused(path: str, message: str) -> InvalidAccelerator:
    return InvalidAccelerator(f"{path}: {message}", field=f"accelerator.{path}")


@functools.cache
def _texts() -> dict[str, tuple[str, OperationMode]]:
    """The operation and the mode of each text that the kernel computes, without its names."""
    texts: dict[str, tuple[str, OperationMode]] = {
        without_names(ACCUMULATE).text: ("multiply", "accumulate"),
        without_names(ZERO).text: ("zero", "zero"),
    }
    for name in ALU_OPERATIONS:
        texts[without_names(two_operands(name)).text] = name, "two_operands"
        for first in ("dst", "src"):
            texts[without_names(with_immediate(name, first)).text] = name, first
    return texts


def _known(operation: Operation, path: str) -> _Known:
    names = without_names(operation.does)
    if names.text not in _texts():
        like = [ACCUMULATE, ZERO, *map(two_operands, ALU_OPERATIONS)]
        like += [with_immediate(name, "dst") for name in ALU_OPERATIONS]
        known = "; ".join(like)
        raise _refused(f"{path}.does", f"no VTA computes {operation.does!r}. But for names, one computes: {known}")
    does, mode = _texts()[names.text]
    return _Known(operation, path, does, mode, names)


def _gemm(instruction: Compute, known: list[_Known], path: str) -> Gemm:
    by_mode = {one.mode: one for one in known}
    whole = len(known) == 2 and by_mode.keys() == {"accumulate", "zero"}
    fields = {field for one in known for field in one.operation.when}
    values = {one.mode: list(one.operation.when.values()) for one in known}
    if not whole or len(fields) != 1 or values != {"accumulate": [0], "zero": [1]}:
        raise _refused(
            f"{path}.operations",
            f"a VTA's matrix instruction does {ACCUMULATE!r} when a field is 0, and {ZERO!r} when it is 1",
        )
    dst, data, weights = by_mode["accumulate"].names.tensors
    if by_mode["zero"].names.tensors != (dst,):
        raise _refused(f"{by_mode['zero'].path}.does", f"it must write {dst}, as {by_mode['accumulate'].path} does")
    return Gemm(instruction, dst, data, weights, fields.pop())


def _alu(instruction: Compute, known: list[_Known], path: str) -> Alu:
    pairs = [one for one in known if one.mode == "two_operands"]
    immediates = [one for one in known if one.mode != "two_operands"]
    operands = {one.names.tensors for one in pairs}
    firsts = {one.mode for one in immediates}
    scalars = {one.names.scalars for one in immediates}
    if len(operands) != 1 or len(firsts) != 1 or len(scalars) != 1:
        raise _refused(
            f"{path}.operations",
            "a VTA does each of its operations with two operands, always the same, and with an immediate, always with "
            "the same operand",
        )
    dst, src = operands.pop()
    first: ImmediateWith = "src" if firsts.pop() == "src" else "dst"
    for one in immediates:
        if one.names.tensors != ((dst, src) if first == "src" else (dst,)):
            raise _refused(f"{one.path}.does", f"it must write {dst}, as the operations with two operands do")
    opcode, use_immediate = _choice(pairs, immediates, path)
    codes = {one.operation.when[opcode]: one.does for one in pairs}
    ((immediate,),) = scalars
    return Alu(instruction, dst, src, opcode, codes, use_immediate, immediate, first)


def _choice(pairs: list[_Known], immediates: list[_Known], path: str) -> tuple[str, str]:
    """The fields of the operation's code and of the choice of an immediate."""
    fields = {tuple(sorted(one.operation.when)) for one in (*pairs, *immediates)}
    names = fields.pop() if len(fields) == 1 else ()
    for use, opcode in (names, names[::-1]) if len(names) == 2 else ():
        if _all(pairs, use, 0) and _all(immediates, use, 1):
            codes = [sorted((one.operation.when[opcode], one.does) for one in known) for known in (pairs, immediates)]
            if codes[0] == codes[1] and len(dict(codes[0])) == len(codes[0]):
                return opcode, use
    raise _refused(
        f"{path}.operations",
        "a VTA chooses by two fields: one holds the code of the operation, and one is 0 for two operands and 1 for an "
        "immediate; each code has both",
    )


def _all(known: Iterable[_Known], field: str, value: int) -> bool:
    return all(one.operation.when[field] == value for one in known)
