"""Programs that trace or transform a model:  tracing_states.py STATE... (see `state_looks`)"""

import re

import torch
from state_looks import Model, example, main, no_look, state, values
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

LOOKS_IN_COMPILATION = 3
RUNS_AT_MOST = 200


@state
def jit_trace(look):
    model = Model(look)
    traced = torch.jit.trace(model, (example(),), check_trace=False)
    model.looks = no_look
    graph = re.sub(r"(\.?___torch_mangle_\d+)", "", str(traced.inlined_graph))  # numbers of the process's classes
    return {"graph": graph, "result": values(traced(example()))}


@state
def jit_trace_of_a_custom_operation(look):
    """The operation runs where PyTorch's tracer is switched off for the thread."""

    def double(x: torch.Tensor) -> torch.Tensor:
        look()
        return x * 2

    with torch.library._scoped_library("gputui_states", "FRAGMENT") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", double, "CompositeExplicitAutograd")
        traced = torch.jit.trace(lambda x: torch.ops.gputui_states.double(x) + 1, (example(),), check_trace=False)
        return {"graph": str(traced.graph), "result": values(traced(example()))}


@state
def torch_export(look):
    model = Model(look)
    exported = torch.export.export(model, (example(),), strict=False)
    return {"code": exported.graph_module.code, "result": values(exported.module()(example()))}


@state
def torch_fx(look):
    class Tracer(torch.fx.Tracer):
        def trace(self, root):
            root.looks = look
            return super().trace(root)

    model = Model(no_look)
    graph = Tracer().trace(model)
    return {"graph": str(graph), "result": values(torch.fx.GraphModule(model, graph)(example()))}


def made_by_make_fx(look, mode, *, pre_dispatch=False):
    graph = make_fx(Model(look), tracing_mode=mode, pre_dispatch=pre_dispatch, _allow_non_fake_inputs=True)(example())
    return {"code": graph.code, "result": values(graph(example()))}


@state
def make_fx_of_real_tensors(look):
    return made_by_make_fx(look, "real")


@state
def make_fx_of_fake_tensors(look):
    return made_by_make_fx(look, "fake")


@state
def make_fx_with_symbolic_shapes(look):
    return made_by_make_fx(look, "symbolic")


@state
def make_fx_before_dispatch(look):
    return made_by_make_fx(look, "symbolic", pre_dispatch=True)


@state
def fake_tensors(look):
    model = Model(look)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        result = model(mode.from_tensor(example()))
        look()
    return {"shape": list(result.shape), "type": type(result).__name__, "device": str(result.device)}


@state
def functorch_vmap(look):
    model = Model(look)
    rows = torch.func.vmap(torch.func.vmap(lambda row: model(row[None])))
    return {"result": values(rows(example().view(3, 1, 4)))}


@state
def functorch_grad(look):
    model = Model(look)
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    first = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, example()[:, None])
    second = torch.func.grad(lambda x: torch.func.grad(lambda y: loss(parameters, y))(x).sum())(example())
    return {"first": {name: values(gradient) for name, gradient in first.items()}, "second": values(second)}


@state
def functorch_jvp(look):
    result, tangent = torch.func.jvp(Model(look), (example(),), (example() * 2,))
    return {"result": values(result), "tangent": values(tangent)}


@state
def functorch_functionalize(look):
    return {"result": values(torch.func.functionalize(Model(look))(example()))}


def compiled(backend):
    """The graphs that torch.compile made of the model, and what they compute."""
    graphs = []

    def collect(graph, inputs):
        graphs.append(graph.code)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = Model(no_look)
    model.forward = torch.compile(model.forward, backend=collect, fullgraph=True, dynamic=False)
    result = model(example())
    result.sum().backward()
    frames = dict(torch._dynamo.utils.counters["frames"])
    return {"graphs": graphs, "result": values(result), "gradients": model.gradients(), "frames": frames}


def runs_of_the_compiler(look, backend):
    """The different outcomes of compilations, with looks at any moment until enough of them were within one."""
    outcomes = [compiled(backend)]
    if look is not no_look:
        look.during(lambda: compile_until_looked_at(look, backend, outcomes))
    return outcomes


def compile_until_looked_at(look, backend, outcomes):
    for _ in range(RUNS_AT_MOST):
        outcome = compiled(backend)
        if outcome not in outcomes:
            outcomes.append(outcome)
        if look.in_compilation >= LOOKS_IN_COMPILATION:
            return


@state
def compile_eager(look):
    return runs_of_the_compiler(look, "eager")


@state
def compile_aot_eager(look):
    return runs_of_the_compiler(look, "aot_eager")


main()
