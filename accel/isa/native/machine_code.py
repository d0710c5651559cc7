"""Machine code of translated kernels for this host: LLVM compiles it, and links it into the process."""

import ctypes
import functools
import itertools
import platform
from importlib.metadata import version

import llvmlite.binding as llvm

from accel.isa.native.translation import ENTRY

_numbers = itertools.count()


@functools.cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@functools.cache
def host() -> str:
    """Returns what machine code depends on besides the kernel: the compiler, the processor, what it has."""
    features = llvm.get_host_cpu_features().flatten()
    return " ".join([version("llvmlite"), platform.machine(), _target().triple, llvm.get_host_cpu_name(), features])


def object_code(text: str) -> bytes:
    """Compiles a module in LLVM's language for this host."""
    machine = _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    # of Gemmini's registers, the largest kernel, level 2 takes half as long again, and its code is no faster
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


@functools.cache
def linker() -> llvm.LLJIT:
    """Returns what links object code into this process."""
    _target()
    return llvm.create_lljit_compiler()


class LinkedKernel:
    """The entry of object code that :func:`object_code` made; it runs without Python's lock.

    Raises:
        RuntimeError: it cannot be linked.
    """

    def __init__(self, code: bytes) -> None:
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(ENTRY)
        self._library = library.link(linker(), f"compiled {next(_numbers)}")  # keeps the code
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self._library[ENTRY])
