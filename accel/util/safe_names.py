"""Checks of names from outside, of nodes, tensors and arrays: which can be shown, and which can be archive members."""

import re

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SEPARATOR = re.compile(r"[\\/]")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_MOST_BYTES = 2048  # of a member; zips take 65,535


def text_fault(name: str) -> str | None:
    """Returns why the name cannot be shown: it has control characters, or is not valid text; None if it can."""
    found = _CONTROL.search(name)
    return f"it has the control character U+{ord(found[0]):04X}" if found else None


def name_fault(name: str) -> str | None:
    """Returns why ``name`` cannot be the name of a node or tensor; None if it can."""
    if fault := text_fault(name):
        return fault
    return "its part '..' would lead out of a folder" if ".." in _SEPARATOR.split(name) else None


def tensor_fault(name: str) -> str | None:
    """Returns why ``name`` cannot be the name of an input, an output or an array of an npz file; None if it can.

    One leading slash is allowed: exporters call outputs ``/fc/Gemm_output_0``, and tools that unpack zips drop it.
    """
    return member_fault(name.removeprefix("/"))


def member_fault(name: str) -> str | None:
    """Returns why ``name`` cannot be the name of a file in an archive; None if it can."""
    if not name:
        return "it is empty"
    if fault := name_fault(name):
        return fault
    if name.startswith("/") or _DRIVE.match(name):
        return "it is an absolute path; rename it"
    if "\\" in name:
        return "it has a backslash, which some systems take for a folder's"
    if len(name.encode()) > _MOST_BYTES:
        return f"it has more than {_MOST_BYTES} bytes"
    return None


def shown(name: str) -> str:
    """Returns the name, shortened, with characters that cannot be shown escaped as in JSON."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", name[:64])
