"""Cyclops the library: a model and an accelerator become a program, and the program is simulated and verified.

``accel.driver.run_model.run_model`` is the whole job; ``accel.lowering.pipeline`` lists the compiler's stages.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# onnxruntime reads it once, while it is loaded; without it, it keeps a device id below HOME and reports its use
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# OpenBLAS reads it while numpy is imported: the power of two of cycles for which its threads spin, waiting for more to
# do. Usually that is some 20 ms of a processor after each product, which compilation beside it needs.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

# TVM reads it while it is imported, and then loads what it has for GPUs. That, and its distributed runtime, which its
# wheels lack, end in errors that it catches itself; for the first one it reads the symbols of all its libraries.
# Without both it is imported in two thirds of the time, and takes 40 MB less.
os.environ.setdefault("TVM_DEVICE_BACKEND_AUTOLOAD", "0")
sys.modules.setdefault("tvm.runtime.disco", None)  # type: ignore[arg-type]  # "None" is not found, as Python documents


class _NamesListedOnce(MetaPathFinder):
    """Has TVM list the names of its functions again only if there are more: it would for each of fifty modules.

    That takes a quarter of its import.
    """

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds nothing; what TVM's modules list names with is another function from when TVM is looked for."""
        if name == "tvm":
            sys.meta_path.remove(self)
            from tvm_ffi import registry  # noqa: PLC0415 - most that import this package do without TVM

            listed: dict[int, list[str]] = {}

            def list_names() -> list[str]:
                names = registry.get_global_func("ffi.FunctionListGlobalNamesFunctor")()
                count = names(-1)
                if count not in listed:
                    listed[count] = [names(place) for place in range(count)]
                return listed[count]

            registry.list_global_func_names = list_names
        return None


sys.meta_path.insert(0, _NamesListedOnce())
