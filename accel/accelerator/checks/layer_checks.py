"""Checks of instructions as large as a layer: their operands, windows and loops, how they sum, and what they use."""

from accel.accelerator.cost_ranges import cost_fields, depths_of_memories
from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.field_roles import field_at, field_roles
from accel.accelerator.instructions import HardwareLoop, Layer, LayerOperand, LayerOperation, Window
from accel.accelerator.require import require, require_known, together
from accel.accelerator.semantics import LayerSemantics, layer_semantics
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError


def check_layer(path: str, layer: Layer, accelerator: Accelerator) -> None:
    """Refuses undefined memories, operands and loops, and windows and loops that say two things of one operand.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    memories = [memory.name for memory in accelerator.memories]
    with together() as apart:
        with apart():
            waits = "units wait for tokens, and a layer has none to wait for; expected hazards or in_order"
            require(not isinstance(accelerator.synchronisation, TokenSync), f"{path}.kind", waits)
        for name, operand in layer.operands.items():
            with apart():
                require_known(operand.memory, memories, f"{path}.operands.{name}.memory", "memory")
                _check_operand(f"{path}.operands.{name}", name, operand, layer)
                _check_shape(f"{path}.operands.{name}", operand, accelerator)
        moved = [name for name, operand in layer.operands.items() if operand.windows]
        for name in moved[1:]:
            with apart():
                one = f"{moved[0]} has windows already; a kernel moves over one operand"
                require(condition=False, path=f"{path}.operands.{name}.windows", message=one)
        for index, loop in enumerate(layer.loops):
            with apart():
                _check_loop(f"{path}.loops.{index}", loop, layer)
        for name in layer.uses:
            with apart():
                require_known(name, memories, f"{path}.uses.{name}", "memory")
        with apart():
            _check_follows(path, layer, accelerator)


def _check_operand(path: str, name: str, operand: LayerOperand, layer: Layer) -> None:
    if operand.dram is None:
        inside = f"{name} is on the chip alone; it needs an address in DRAM (dram)"
        require(operand.dram_dtype is None, f"{path}.dram_dtype", inside)
        require(not operand.windows, f"{path}.windows", inside)
    seen: dict[str, int] = {}
    for index, window in enumerate(operand.windows):
        at = f"{path}.windows.{index}"
        _check_window(at, name, window, layer)
        for extent in window.over:
            twice = f"{extent} is in window {seen.get(extent)} already; a loop moves one way"
            require(extent not in seen, f"{at}.over.{extent}", twice)
            seen[extent] = index


def _check_shape(path: str, operand: LayerOperand, accelerator: Accelerator) -> None:
    """Several elements at once are rows of one memory; only these have a pitch."""
    alone = "it is the pitch of several elements, and the operand has no shape of several"
    require(operand.pitch is None or operand.shape is not None, f"{path}.pitch", alone)
    if operand.shape is not None:
        element = accelerator.memory(operand.memory).shape
        last = f"the last axis must be that of an element of {operand.memory}, {list(element)}; found {operand.shape}"
        require(operand.shape[1:] == element, f"{path}.shape", last)
        require(operand.dram is not None, f"{path}.shape", "it is on the chip alone, and has one element")


def _check_follows(path: str, layer: Layer, accelerator: Accelerator) -> None:
    """Numbers are for sequences, and what follows from them are fields of parts that nothing else fills."""
    need = f"{layer.name} has fields of its own; numbers are for a sequence of parts"
    require(not layer.numbers or bool(layer.sequence), f"{path}.numbers", need)
    filled = {name for _, name in field_roles(layer)} | {name for each in layer.operations for name in each.when}
    for name in layer.follows:
        at = f"{path}.follows.{name}"
        field = field_at(accelerator, layer, name, at)
        require(name not in layer.numbers, at, f"{name} is a number of its own; what follows is a field of a part")
        require(field.value is None, at, f"{name} is constant")
        require(name not in filled, at, f"{name} has its value from elsewhere already")


def _check_window(path: str, name: str, window: Window, layer: Layer) -> None:
    loops = {loop.extent: loop for loop in layer.loops}
    for extent in window.over:
        require_known(extent, loops, f"{path}.over.{extent}", "loop with the extent")
        loop = loops[extent]
        both = f"{name} steps in the loop over {extent} by itself already (factors, steps); a window says how"
        require(not loop.moves(name), f"{path}.over.{extent}", both)


def _check_loop(path: str, loop: HardwareLoop, layer: Layer) -> None:
    for role, names in (("factors", loop.factors), ("steps", loop.steps), ("follows", loop.follows)):
        for name in names:
            require_known(name, layer.operands, f"{path}.{role}", "operand")
            chip = f"{name} is on the chip alone, and has one element while the layer runs; it does not step"
            require(layer.operands[name].dram is not None, f"{path}.{role}.{name}", chip)
    both = sorted(loop.factors.keys() & loop.steps.keys())
    require(not both, f"{path}.steps", f"{', '.join(both)} has its step in a field already (factors)")
    both = sorted(loop.follows.keys() & (loop.factors.keys() | loop.steps.keys()))
    require(not both, f"{path}.follows", f"{', '.join(both)} has its step already (factors, steps)")
    for name, step in loop.steps.items():
        require(step >= 0, f"{path}.steps.{name}", f"{step}; a layer steps up in DRAM, from 0 on")


def check_layer_expressions(path: str, layer: Layer, accelerator: Accelerator) -> None:
    """Refuses operations that do not begin, go on and end at the operands that they must; each expression is checked.

    Raises:
        InvalidAccelerator: ``field`` is the path of the expression.
    """
    with together() as apart:
        for index, operation in enumerate(layer.operations):
            with apart():
                _check_pair(f"{path}.operations.{index}", operation)
        for index, meaning in enumerate(layer_semantics(accelerator, layer)):
            with apart():
                _check_order(f"{path}.operations.{index}", meaning, layer)


def _check_pair(path: str, operation: LayerOperation) -> None:
    for role, other in (("begins", "ends"), ("ends", "begins")):
        alone = f"{role} without {other}: what is summed on the chip begins there, and ends in DRAM"
        given = getattr(operation, role) is not None
        require(not given or getattr(operation, other) is not None, f"{path}.{role}", alone)


def _check_order(path: str, meaning: LayerSemantics, layer: Layer) -> None:
    """Sums are on the chip, all else is in DRAM; what is written there is not read."""
    in_dram = {name for name, operand in layer.operands.items() if operand.dram is not None}
    does, sums = meaning.does.typed.statement, meaning.sums
    written = meaning.written
    at = f"{path}.ends" if meaning.ends is not None else f"{path}.does"
    require(written in in_dram, at, f"{written} is on the chip alone; a layer leaves its result in DRAM")
    if sums is not None:
        in_place = f"{sums} is in DRAM; what a layer sums is on the chip until it ends"
        require(sums not in in_dram, f"{path}.does", in_place)
        forgets = f"{does} keeps nothing of the points before; expected '+=', 'max=' or 'min='"
        require(does.updates, f"{path}.does", forgets)
        if meaning.begins is None or meaning.ends is None:
            return  # which is refused as a pair that lacks one
        begun = meaning.begins.typed.statement
        first = f"{begun} begins {begun.target.name}, and {does} goes on with {sums}; both must be one"
        require(begun.target == does.target and not begun.updates, f"{path}.begins", first)
        last = f"{meaning.ends.typed.statement} does not read {sums}, which was summed"
        require(sums in meaning.ends.typed.statement.operands, f"{path}.ends", last)
    for role, each in (("begins", meaning.begins), ("does", meaning.does), ("ends", meaning.ends)):
        if each is None:
            continue
        allowed = in_dram - {written} | ({sums} if role == "ends" and sums is not None else set())
        statement = each.typed.statement
        slid = f"{statement} slides by its indices; of a layer's operands one slides, by its windows"
        require(not statement.slides, f"{path}.{role}", slid)
        own = (written,) if statement.reads_target and statement.target.name == written else ()
        for name in (*statement.operands, *own):
            why = "which the layer itself writes" if name == written else "which holds nothing then"
            require(name in allowed, f"{path}.{role}", f"{statement} reads {name}, {why}")
        again = f"{statement} adds to DRAM; a layer writes what it leaves there once"
        require(statement.target.name != written or not statement.updates, f"{path}.{role}", again)


def check_layer_room(accelerator: Accelerator) -> None:
    """Refuses addresses too narrow for two tensors, and layers that never fit the memories that they use.

    Raises:
        InvalidAccelerator: ``field`` is the path of the address, or of what is used.
    """
    with together() as apart:
        for index, layer in enumerate(accelerator.instructions):
            if not isinstance(layer, Layer):
                continue
            for name, operand in layer.operands.items():
                if operand.dram is not None:
                    at = f"instructions.{index}.operands.{name}.dram"
                    with apart():
                        _check_reach(at, name, operand.dram, layer, accelerator)
            for memory, text in layer.uses.items():
                with apart():
                    _check_use(f"instructions.{index}.uses.{memory}", memory, text, layer, accelerator)
            for number, loop in enumerate(layer.loops):
                bits = accelerator.bits(layer, loop.extent)
                with apart():
                    none = f"{loop.extent} has 0 bits and can only be 0; it needs 1 bit at least"
                    require(bits > 0, f"instructions.{index}.loops.{number}.extent", none)


def _check_reach(path: str, name: str, field: str, layer: Layer, accelerator: Accelerator) -> None:
    unit = layer.unit_bytes(name, accelerator.memory(layer.operands[name].memory))
    bits, second = accelerator.bits(layer, field), -(-accelerator.dram.alignment_bytes // unit)
    short = (
        f"{field} has {bits} bits and counts {layer.dram_unit}s: it reaches {unit << bits} bytes of DRAM, and no two "
        f"tensors lie in them, {accelerator.dram.alignment_bytes} bytes apart; {second.bit_length()} bits reach two"
    )
    require(second < 1 << bits, path, short)


def _check_use(path: str, memory: str, text: str, layer: Layer, accelerator: Accelerator) -> None:
    cost, depth = parse_cost(text), accelerator.memory(memory).depth
    fields = cost_fields(accelerator, layer)
    extents = {loop.extent for loop in layer.loops}
    extents |= {window.extent for operand in layer.operands.values() for window in operand.windows}
    depths = depths_of_memories(accelerator)
    smallest = {name: float(fields.get(name, name) in extents) for name in cost.names}
    smallest |= {name: depths[name] for name in cost.names if name in depths and name not in fields}
    try:
        least = float(cost.evaluate(smallest))
    except ExpressionError as error:
        require(condition=False, path=path, message=f"with every extent 1, {error.detail}")
        return
    over = f"{cost} is {least:g} with every extent 1, and {memory} has {depth} elements: nothing would ever fit"
    require(0 <= least <= depth, path, over)
