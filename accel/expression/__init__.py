"""The language in which an accelerator document says what an instruction does, and what it costs.

``docs/expressions.md`` is its reference page. Text is parsed by hand, and never run as Python. Only the modules after
the line need TVM::

    syntax_tree.ExpressionError                         # an InvalidAccelerator; its detail says column, found, expected
    syntax_tree.Statement                               # target, combiner, value; str() is the canonical text
        .target: Access                                 # name, indices: tuple[str | int, ...]
        .operands: tuple[str, ...]                      # tensors read on the right, without the target
        .reads_target: bool                             # the target is read on the right
        .scalars, .axes, .reduced: tuple[str, ...]      # in order of first use; reduced: axes on the right only
    parser.parse_statement(text) -> Statement

    element_types.TensorType(dtype, shape)              # dtype: "int8" ... "uint32", "float32"; shape: tuple[int, ...]
    typecheck.check_statement(statement, tensors: Mapping[str, TensorType], scalars: Mapping[str, str]) -> Typed
    typecheck.Typed                                     # statement, tensors, scalars, extents (axis -> elements), value

    simplify.simplify_product(typed) -> Typed           # a product of two operands without casts that change nothing

    cost_expression.parse_cost(text) -> Cost
    cost_expression.Cost.names: tuple[str, ...]
    cost_expression.Cost.evaluate(columns: Mapping[str, NDArray | float]) -> NDArray[float64]
    ------------------------------------------------------------------------------------------------------------------
    loop_builder.Place(buffer, base, strides=None)      # a flat buffer; base and strides in elements
    loop_builder.build_loops(typed, places: Mapping[str, Place], scalars: Mapping[str, tirx.Expr]) -> tirx.Stmt

    unify.unify(typed, store: tirx.BufferStore, accept: Callable[[str, TensorLoad], bool]) -> Binding | Mismatch
    unify.bindings(typed, store, accept) -> Iterator[Binding]     # all of them, where one is refused later
    unify.Binding                                       # operands: dict[str, TensorLoad], scalars: dict[str, tirx.Expr]
        .accumulates: bool                              # the store adds to the target's value
    unify.Mismatch.reason: str
"""
