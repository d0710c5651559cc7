"""Regions that differ from a compiled one in numbers alone: the numbers are put into its words and its texts.

Lowering reads of a float only whether it is one that arithmetic or an instruction knows. Another one goes from the
region to a field of float32, as it is. So what was made of one region is made of another one by putting these numbers
in place of those, and that nothing else was made of them is asked of the words.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from accel.accelerator.field_bits import WORD_BITS
from accel.accelerator.target import Target
from accel.lowering.analysis.like_numbers import LikeNumbers, float32_bits
from accel.lowering.codegen.region_lowering import LoweredRegion, Printable, StageText
from accel.lowering.codegen.relocatable_code import rows_of
from accel.lowering.ir.function_attributes import FLOAT_TEXT, REGION
from accel.util.arrays import Words

_MOST_TRIED = 4  # regions of one kind that are asked for one like them: they differ in which numbers are plain
_PRINTED = re.compile(r"T\.float32\([^()]*\)")


class LikeRegions:
    """The regions that were compiled for a target so far, and what is made of them."""

    def __init__(self, target: Target) -> None:
        accelerator = target.accelerator
        parts = {part.name: part for each in accelerator.instructions for part in accelerator.parts(each)}
        self._fields = [
            (part, field)
            for part in parts.values()
            for field in part.fields
            if field.type == "float32" and field.value is None
        ]
        self._target = target
        self._compiled: dict[str, dict[str, Callable[[], LoweredRegion]]] = defaultdict(dict)

    @property
    def _known(self) -> LikeNumbers:
        """The numbers of instructions' expressions; a document without fields of float32 is never asked for them."""
        return self._target.derived(LikeNumbers)

    def add(self, attribute: str, lowered: Callable[[], LoweredRegion]) -> None:
        """Let regions like one be made of it.

        Args:
            attribute: of its function.
            lowered: what was made of it, which is asked for where there is another region like it.
        """
        kind = self._compiled[FLOAT_TEXT.sub("", attribute)] if self._fields else {}
        if len(kind) < _MOST_TRIED:
            kind.setdefault(attribute, lowered)

    def find(self, attribute: str) -> LoweredRegion | None:
        """Returns what is made of the region of an attribute; None if that must be asked of the stages."""
        if not self._fields:
            return None
        for other, made_of in self._compiled.get(FLOAT_TEXT.sub("", attribute), {}).items():
            numbers = self._renumbering(other, attribute)
            if numbers is None:
                continue
            lowered = made_of()
            words = self._renumbered(lowered.made.code.words, numbers)
            if words is None:
                continue
            made = replace(lowered.made, code=replace(lowered.made.code, words=words))
            tokens = {
                _printed(sign * old): _printed(sign * new) for old, new in numbers.values.items() for sign in (1, -1)
            }
            stages: Mapping[str, Printable] = {
                name: _RenumberedText(stage, tokens, (other, attribute)) for name, stage in lowered.stages.items()
            }
            return LoweredRegion(lowered.packed.with_attr(REGION, attribute), stages, made)
        return None

    def may_find(self, attribute: str) -> bool:
        """Returns whether :meth:`find` is likely to find something: words of what was added are not asked for yet."""
        known = self._compiled.get(FLOAT_TEXT.sub("", attribute), {}) if self._fields else {}
        return any(self._renumbering(other, attribute) is not None for other in known)

    def _renumbering(self, one: str, other: str) -> "_Numbers | None":
        """The numbers of one region and what they are in another one; None where something may depend on them."""
        pairs = [*zip(map(float, FLOAT_TEXT.findall(one)), map(float, FLOAT_TEXT.findall(other)), strict=True)]
        if not self._known.are_alike(pairs):
            return None
        bits = {float32_bits(abs(a)): float32_bits(abs(b)) for a, b in pairs}
        return _Numbers({abs(a): abs(b) for a, b in pairs if a != b}, bits)

    def _renumbered(self, words: Words, numbers: "_Numbers") -> Words | None:
        """Words (n, words_each) with other numbers; None where the first ones are not all there, or others are."""
        made, found = words.copy(), set[int]()
        for part, field in self._fields:
            rows = rows_of(part, words)
            word, shift = divmod(field.lsb, WORD_BITS)
            values = (words[rows, word] >> np.uint64(shift)).astype(np.uint32)
            for value in map(int, np.unique(values)):
                magnitude, sign = value & _MAGNITUDE, value & ~_MAGNITUDE
                found.add(magnitude)
                new = numbers.bits.get(magnitude)
                if new is None:
                    if self._known.is_any(float(np.uint32(magnitude).view(np.float32))):
                        return None
                elif new != magnitude:
                    change = np.uint64((value ^ (new | sign)) << shift)
                    made[rows[values == value], word] ^= change
        changed = {old for old, new in numbers.bits.items() if old != new}
        return made if changed <= found else None


_MAGNITUDE = 0x7FFF_FFFF


@dataclass(frozen=True)
class _Numbers:
    """Numbers of one region that are others in another one, without signs; ``bits`` are those of all, as float32."""

    values: Mapping[float, float]
    bits: Mapping[int, int]


@dataclass(frozen=True)
class _RenumberedText:
    """What a stage made of a function, printed with other numbers, and with the attribute of the other region."""

    stage: Printable
    tokens: Mapping[str, str]
    attributes: tuple[str, str]

    def text(self) -> StageText:
        """Returns the texts."""
        made = self.stage.text()
        passes = tuple((name, None if text is None else self._of(text)) for name, text in made.passes)
        return StageText(self._of(made.text), passes)

    def _of(self, text: str) -> str:
        one, other = map(json.dumps, self.attributes)
        return _PRINTED.sub(lambda found: self.tokens.get(found[0], found[0]), text.replace(one, other))


def _printed(number: float) -> str:
    """A number as TVMScript has it."""
    return str(tirx.const(number, "float32"))
