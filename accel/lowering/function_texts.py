"""The text of a module function by function: what a stage makes of one does not depend on the others.

A text that is kept has no name of its own, so that it serves functions that are called otherwise.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm.ir.instrument import pass_instrument
from tvm_ffi import structural_equal

_BEGIN = re.compile(r"^(?=    @)", re.MULTILINE)
_NAME = re.compile(r"^    def (\w+)\(", re.MULTILINE)
_AFTER = "\n#"  # what follows a function that is no function
_NAMELESS = "region"


@dataclass(frozen=True)
class ModuleText:
    """A module as TVMScript: ``head``, then by name each function, nameless, and what follows it."""

    head: str
    functions: dict[str, str]
    after: dict[str, str]

    @classmethod
    def of(cls, text: str) -> "ModuleText":
        """Cut the text of a module: a function begins with its decorator, indented once."""
        head, *parts = _BEGIN.split(text)
        result = cls(head, {}, {})
        for part in parts:
            name, body = _NAME.search(part), part.partition(_AFTER)[0].rstrip()
            assert name is not None
            result.functions[name[1]] = _renamed(body, name[1], _NAMELESS)
            result.after[name[1]] = part[len(body) :]
        return result

    def with_functions(self, texts: Mapping[str, str]) -> str:
        """The module's text with other texts, nameless, for some of its functions."""
        functions = self.functions | dict(texts)
        return self.head + "".join(
            _renamed(function, _NAMELESS, name) + self.after[name] for name, function in functions.items()
        )


def _renamed(function: str, old: str, new: str) -> str:
    return function.replace(f"    def {old}(", f"    def {new}(", 1)


@dataclass(frozen=True)
class StageText:
    """A function as a stage left it, nameless, and as each TVM pass within the stage did.

    ``passes`` are names and texts, None where the function stayed as it was; ``head`` stands before the functions.
    """

    text: str
    head: str = ""
    passes: tuple[tuple[str, str | None], ...] = ()


@pass_instrument
class FunctionPasses:
    """A TVM pass instrument that keeps each function's text after each pass that changed it."""

    def __init__(self) -> None:
        self.head = ""
        self.passes: dict[str, list[tuple[str, str | None]]] = {}
        self._before: list[dict[str, Any]] = []

    def run_before_pass(self, module: Any, _info: Any) -> None:
        """TVM calls this; passes nest, so it is a stack."""
        self._before.append(_by_name(module))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """TVM calls this. A pass that is a sequence of passes says nothing of its own."""
        before = self._before.pop()
        if str(info.name) == "sequential":
            return
        functions = _by_name(module)
        changed = {name for name, function in functions.items() if not structural_equal(before.get(name), function)}
        text = ModuleText.of(module.script()) if changed else None
        self.head = text.head if text else self.head
        for name in functions:
            now = text.functions[name] if text and name in changed else None
            self.passes.setdefault(name, []).append((str(info.name), now))


def _by_name(module: Any) -> dict[str, Any]:
    return {str(variable.name_hint): function for variable, function in module.functions.items()}


def merged_passes(before: Mapping[str, str], after: Mapping[str, StageText]) -> list[tuple[str, str]]:
    """The passes of a stage over a module: (pass, text of the module) of each that changed a function of it.

    Args:
        before: the functions as the stage found them, nameless, in the module's order.
        after: what the stage made of each.
    """
    head = next((stage.head for stage in after.values() if stage.head), "")
    current, found = dict(before), []
    most = max((len(stage.passes) for stage in after.values()), default=0)
    names = next(([name for name, _ in stage.passes] for stage in after.values() if len(stage.passes) == most), [])
    for number, name in enumerate(names):
        passes = {function: stage.passes[number][1] for function, stage in after.items() if number < len(stage.passes)}
        changed = {function: text for function, text in passes.items() if text is not None}
        if changed:
            current |= changed
            texts = [_renamed(text, _NAMELESS, function) for function, text in current.items()]
            found.append((name, head + "\n\n".join(texts)))
    return found
