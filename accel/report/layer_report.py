"""The report of one launch: a layer of the model on the accelerator."""

from collections.abc import Sequence

import numpy as np

from accel.accelerator.contraction import Contraction, contraction
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.decode import Decoded
from accel.isa.family import Timing, dram_traffic
from accel.isa.family_registry import family_of
from accel.program.program_model import Program, Segment
from accel.report.documents.report_documents import CycleAccount, Machine, NetworkBound, ReportedLayer, Roofline
from accel.report.run_traffic import DramTraffic, traffic_of
from accel.simulate import cycle_account
from accel.simulate.engine import LaunchResult, Simulation
from accel.util.arrays import Bools, Int64

_HALF = 0.5


def layers_of(simulation: Simulation, accelerator: Accelerator) -> list[ReportedLayer]:
    """The report of every launch as it ran."""
    gemm = _contraction(accelerator)
    return [_layer(result, accelerator, gemm) for result in simulation.launches]


def _layer(result: LaunchResult, accelerator: Accelerator, gemm: Contraction | None) -> ReportedLayer:
    family, launch, timing, decoded = family_of(accelerator), result.launch, result.timing, result.decoded
    work = family.work(decoded)
    read, written = dram_traffic(family.boxes(decoded))
    moved = read + written if accelerator.shares_bus else max(read, written)
    cycles = timing.cycles if timing else 0
    limit, share = _limit(timing) if timing else ("", 0.0)
    best = work.macs_per_cycle or (gemm.macs if gemm else 0)
    return ReportedLayer(
        name=launch.name,
        op=launch.op,
        nodes=list(launch.nodes),
        macs=launch.macs,
        cycles=cycles,
        lower_bound=work.lower_bound,
        compute_bound=work.compute_cycles,
        bus_bound=work.bus_cycles,
        joined=launch.joined,
        utilisation=launch.macs / (cycles * best) if cycles and best else 0.0,
        gemm_share=work.contract_cycles / cycles if cycles else 0.0,
        limited_by=limit,
        limit_share=share,
        load_overlap=_overlap(decoded, timing, gemm) if timing and gemm else 0.0,
        bytes_read=read,
        bytes_written=written,
        instructions=launch.count,
        energy_pj=family.energy(decoded),
        account=account_document(result.account) if result.account else None,
        roofline=_roofline(launch.macs, cycles, best, (work.bus_cycles, moved)),
    )


def _roofline(macs: int, cycles: int, peak: float, moved: tuple[int, int]) -> Roofline:
    """``moved``: the bytes of the busier of reads and writes, or of both, after the cycles that the bus needs."""
    bus_cycles, nbytes = moved
    return Roofline(
        peak=peak,
        intensity=macs / nbytes if nbytes else None,
        attainable=min(peak, macs / bus_cycles) if bus_cycles else peak,
        achieved=macs / cycles if cycles else None,
    )


def machine_of(layers: list[ReportedLayer], simulation: Simulation, accelerator: Accelerator) -> Machine:
    """Returns the lines of the roofline that ``layers`` are in."""
    peak = max((layer.roofline.peak for layer in layers if layer.roofline is not None), default=0.0)
    gemm, bus_bytes = _contraction(accelerator), None
    if simulation.launches:  # the family may know the bus by another parameter: any launch says it
        shortest = min(simulation.launches, key=lambda result: len(result.kind))
        bus_bytes = family_of(accelerator).work(shortest.decoded).bus_bytes
    return Machine(
        peak_macs_per_cycle=peak or (float(gemm.macs) if gemm else None),
        bus_bytes_per_cycle=bus_bytes or accelerator.dram.bus_bytes,
        clock_mhz=accelerator.clock_mhz,
    )


def network_bound(layers: Sequence[ReportedLayer]) -> NetworkBound | None:
    """Returns what no schedule of the layers goes below; None where there are none."""
    if not layers:
        return None
    compute, bus = sum(layer.compute_bound or 0 for layer in layers), sum(layer.bus_bound or 0 for layer in layers)
    return NetworkBound(
        cycles=max(compute, bus),
        limited_by="compute" if compute >= bus else "bus",
        compute=compute,
        bus=bus,
        layers=sum(layer.lower_bound for layer in layers),
    )


def account_document(account: cycle_account.CycleAccount) -> CycleAccount:
    """Returns the account as the report has it."""
    return CycleAccount.model_validate({"total": account.total, "units": account.units})


def total_account(simulation: Simulation) -> CycleAccount | None:
    """Returns where the cycles of all launches went; None where they were not timed."""
    accounts = [result.account for result in simulation.launches if result.account is not None]
    if not accounts:
        return None
    return account_document(cycle_account.merge_accounts(accounts))


def total_energy(layers: list[ReportedLayer]) -> float | None:
    """Returns the picojoules of all launches; None where the document states no energies."""
    known = [layer.energy_pj for layer in layers if layer.energy_pj is not None]
    return sum(known) if known else None


def program_traffic(program: Program, simulation: Simulation, layers: list[ReportedLayer]) -> DramTraffic:
    """Returns the DRAM traffic of a run of the program whose launches are ``layers``."""
    read, written = sum(layer.bytes_read for layer in layers), sum(layer.bytes_written for layer in layers)
    bordered = program.image.keys() - set(program.inputs)

    def stored(name: str) -> int:
        segment = program.segments[name]
        return _stored_bytes(segment, simulation) if name in bordered else segment.nbytes

    return traffic_of(program, bytes_read=read, bytes_written=written, stored=stored)


def _stored_bytes(segment: Segment, simulation: Simulation) -> int:
    """The bytes of a result that its launches store; others of it are a border that the image has."""
    edges = np.zeros(segment.nbytes + 1, np.int64)
    for result in simulation.launches:
        if segment.name not in result.launch.outputs:
            continue
        rows = family_of(result.accelerator).boxes(result.decoded).writes().single_rows()
        for each, step in ((rows.begin, 1), (rows.begin + rows.row_bytes, -1)):
            np.add.at(edges, np.clip(each - segment.address, 0, segment.nbytes), step)
    return int(np.count_nonzero(np.cumsum(edges[:-1])))


def _limit(timing: Timing) -> tuple[str, float]:
    """The busiest unit and its share of the cycles; ``waiting`` in place of a unit that is busy for less than half."""
    busiest = max(timing.busy, key=lambda unit: timing.busy[unit])
    share = min(timing.busy[busiest] / timing.cycles, 1.0) if timing.cycles else 0.0
    return busiest if share >= _HALF else "waiting", share


def _contraction(accelerator: Accelerator) -> Contraction | None:
    """The contraction; None for an accelerator that only runs programs, and may lack one."""
    try:
        return contraction(accelerator)
    except InvalidAccelerator:
        return None


def _overlap(decoded: Decoded, timing: Timing, gemm: Contraction) -> float:
    load = decoded.accelerator.copy_instruction(gemm.data.memory.name, "load")
    units = (load.unit if load is not None else None), gemm.instruction.unit
    loads, computes = (_busy(timing, decoded.of_unit(unit)) for unit in units)
    busy = int((loads[1] - loads[0]).sum())
    return float((_before(loads[1], *computes) - _before(loads[0], *computes)).sum() / busy) if busy else 0.0


def _busy(timing: Timing, rows: Bools) -> tuple[Int64, Int64]:
    """Starts and ends of the spans in which one of the instructions ran; the spans are in order and do not overlap."""
    last = np.maximum.accumulate(timing.end[rows])
    start = timing.start[rows]
    start[1:] = np.maximum(start[1:], last[:-1])
    return start, np.maximum(last, start)


def _before(cycle: Int64, start: Int64, end: Int64) -> Int64:
    """How many cycles before each of ``cycle`` lie in the spans."""
    total = np.concatenate([[0], np.cumsum(end - start)])
    span = np.searchsorted(start, cycle)  # the spans that begin before
    over = end[np.maximum(span, 1) - 1] - cycle if len(end) else np.zeros_like(cycle)
    return total[span] - np.where(span > 0, np.maximum(over, 0), 0)
