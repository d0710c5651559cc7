"""What of the environment reaches processes that work on what users upload: nothing that could be a secret."""

from collections.abc import Mapping

# where programs, modules and caches lie, how text is read, how many threads the libraries start, and that they report
# nothing
_NAMES = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "CC", "CXX", "ORT_DISABLE_TELEMETRY"}
)
_PREFIXES = ("LC_", "LD_", "DYLD_", "PYTHON", "XDG_", "OMP_", "OPENBLAS_", "MKL_", "NUMBA_", "TVM_")


def harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that such a process may see.

    Those are listed that are needed, and not those that are secret: nobody knows what else a machine's owner keeps in
    the environment. Our own settings are not among them; what is needed of them comes with the task.
    """
    return {name: value for name, value in environment.items() if name in _NAMES or name.startswith(_PREFIXES)}
