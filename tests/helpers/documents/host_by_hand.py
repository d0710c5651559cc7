"""A host whose costs are round, so that times of it can be told by hand."""

from accel.accelerator.host_costs import CacheMaintenance, ElementRates, HostCosts

HOST = HostCosts(
    name="by hand",
    basis="assumed",
    source="a test",
    clock_mhz=650.0,
    bytes_per_cycle=4.0,
    elements_per_cycle=ElementRates(elementwise=2.0, reduction=4.0, exponential=0.5, contraction=8.0, movement=1.0),
    operator_cycles=100.0,
    launch_cycles=1000.0,
    completion_cycles=500.0,
    cache=CacheMaintenance(call_cycles=50.0, line_bytes=32, line_cycles=2.0),
)
