"""The family ``explicit``: an instruction set that is wholly in its document, and runs as the document says.

An instruction does what its expression says, takes the cycles that its cost says, and waits as the document's
synchronisation says. ``executions`` finds what each instruction word does; everything else starts from there.

A copy or a compute with a ``sequence`` is executed where the last of its parts stands. A part before it that is not
sticky must stand directly before, in the order of the sequence; of a sticky part the latest word of the same launch
counts. Where several instructions end with the same part, the values in ``when`` tell them apart. Parts by themselves
do nothing, though they take their unit's time.
"""
