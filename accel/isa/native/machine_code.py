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
    return " ".join([version("llvmlite"), platform.machine(), _target().triple, *_processor()])


def _processor() -> tuple[str, str]:
    """The processor's name, and what it has."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def object_code(text: str) -> bytes:
    """Compiles a module in LLVM's language for this host."""
    cpu, features = _processor()
    machine = _target().create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    # of Gemmini's registers, the largest kernel, level 2 takes half as long again, and its code is no faster
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


@functools.cache
def _linker() -> llvm.LLJIT:
    _target()
    return llvm.create_lljit_compiler()


def linked(code: bytes, *symbols: str) -> llvm.ResourceTracker:
    """Returns the addresses of ``symbols`` of object code by name, once it is linked into this process.

    They hold while what is returned is kept.

    Raises:
        RuntimeError: it cannot be linked.
    """
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        library.export_symbol(symbol)
    return library.link(_linker(), f"kernel {next(_numbers)}")


class LinkedKernel:
    """The entry of object code that :func:`object_code` made; it runs without Python's lock.

    Raises:
        RuntimeError: it cannot be linked.
    """

    def __init__(self, code: bytes) -> None:
        self._library = linked(code, ENTRY)  # keeps the code
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self._library[ENTRY])
