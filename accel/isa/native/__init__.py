"""Machine code of kernels: functions in a part of Python, translated to LLVM's language, compiled, kept and called."""
