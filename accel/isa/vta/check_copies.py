"""What VTA's kernels assume of the copies: which there are, and what they do to elements."""

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.accelerator.meanings import plain_copy
from accel.accelerator.require import require
from accel.isa.anonymous import anonymous
from accel.isa.vta.view import Vta

_SIZES = ("rows", "columns", "row_stride")


def check_copies(accelerator: Accelerator, vta: Vta) -> None:
    """Refuse copies that no kernel does, and a document that lacks one that the passes need.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    wanted = [
        (vta.microops, "load", "uint32"),
        (vta.data, "load", "int8"),
        (vta.weights, "load", "int8"),
        (vta.results, "load", "int32"),
        (vta.results, "store", "int8"),
    ]
    left = [*wanted, (vta.results, "load", "int8")]
    for index, copy in enumerate(accelerator.instructions):
        if not isinstance(copy, Copy):
            continue
        at, what = f"instructions.{index}", (copy.memory, copy.direction, copy.dram_dtype)
        known = f"{copy.direction} of {copy.memory} as {copy.dram_dtype}"
        require(what in left, at, f"a second {known}, or one that no kernel has")
        left.remove(what)
        _check_copy(at, copy, accelerator)
    for memory, direction, dtype in wanted:
        missing = (memory, direction, dtype) in left
        need = f"there is no {direction} of {memory} as {dtype}; {vta.gemm.instruction.unit} needs it"
        require(not missing, "instructions", need)


def _check_copy(at: str, copy: Copy, accelerator: Accelerator) -> None:
    fields, memory = copy.copy_fields, accelerator.memory(copy.memory)
    for role in _SIZES:
        require(getattr(fields, role) is not None, f"{at}.copy_fields.{role}", "a VTA's copy has a field for it")
    pads = (fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right)
    require(copy.direction == "load" or pads == (None,) * 4, f"{at}.copy_fields", "a store has no padding")
    require(copy.dram_unit == "element", f"{at}.dram_unit", f"{copy.dram_unit}; a VTA counts DRAM in elements")
    require(copy.max_rows is None, f"{at}.max_rows", "a VTA's copy has no limit but its field's")
    bits = accelerator.bits(copy, fields.sram)
    deep = f"{bits} bits do not address the {memory.depth} elements of {memory.name}"
    require(memory.depth - 1 < 1 << bits, f"{at}.copy_fields.sram", deep)
    does = plain_copy(copy, memory).does
    require(len(copy.operations) <= 1, f"{at}.operations", "a VTA's copy does one thing")
    for index, operation in enumerate(copy.operations):
        same = anonymous(operation.does).text == anonymous(does).text
        require(same, f"{at}.operations.{index}.does", f"{operation.does!r}; no kernel does it, but one does {does!r}")
        require(not operation.when, f"{at}.operations.{index}.when", "a VTA's copy does one thing, without a choice")
