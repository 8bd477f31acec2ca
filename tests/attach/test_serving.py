"""A server is shown in its own words, read without running its code: with classes shaped as vLLM's."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.attach.children import Child, Python
from tests.attach.command import attach, gputui

PROGRAMS = Path(__file__).parent / "programs"
MIB = 2**20
CACHE_BYTES = 4096 * 4 * 32768
FRONT = """
    import os, subprocess, sys
    found = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": os.pathsep.join(sys.path)}  # it has lost its own name
    words, environment = ["VLLM::EngineCore", "engine.py"], {**os.environ, **found}
    child = subprocess.Popen(words, executable=sys.executable, stdin=subprocess.PIPE, env=environment)
    print("front", flush=True)
    input()
"""
SERVER = f"""
    import gputui.probe, sys
    sys.path.insert(0, {str(PROGRAMS)!r})
    from like_vllm import LLM

    def serve():
        llm = LLM({{utilization}})
        print("ready", flush=True)
        input()

    serve()
"""


def gpu_variables(python: Python) -> dict[str, str]:
    return {key: python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}


def written(python: Python) -> None:
    """Write the engine's program into the folder of the tests' programs."""
    (python.folder / "engine.py").write_text(textwrap.dedent(SERVER.replace("{utilization}", "0.01")))


@pytest.fixture
def server(cuda_python: Python) -> Child:
    child = cuda_python.fork(SERVER.replace("{utilization}", "0.01"))
    child.expect("ready")
    return child


def test_the_division_of_the_device_adds_up_to_it(server: Child, cuda_python: Python):
    status, text, errors = attach(str(server.pid), "--once", "--json", environment=gpu_variables(cuda_python))
    assert status == 0, errors
    document = json.loads(text)
    parts = {part["part"]: part["bytes"] for part in document["serving"]["division"]}
    assert sum(parts.values()) == document["devices"][0]["nvml"]["device_total_bytes"]
    assert parts["weights"] == 8 * MIB
    assert parts["kv_cache"] == CACHE_BYTES
    assert parts["buffers"] >= 4 * MIB
    profile = document["serving"]["profile"]
    assert parts["left"] == profile["free_before_bytes"] - profile["requested_bytes"]
    assert server.process.poll() is None, "the engine's code was run"


def test_a_cache_among_the_globals_of_an_engines_module_has_its_name(server: Child, cuda_python: Python):
    document = json.loads(attach(str(server.pid), "--once", "--json", environment=gpu_variables(cuda_python))[1])
    names = [name for group in document["devices"][0]["tensors"]["groups"] for name in group["names"]]
    assert any(name.startswith("_TRITON_BUFFER_CACHE") for name in names), names


def test_the_cache_and_the_requests_are_those_of_the_engine(server: Child, cuda_python: Python):
    document = json.loads(attach(str(server.pid), "--once", "--json", environment=gpu_variables(cuda_python))[1])
    serving = document["serving"]
    assert (serving["engine"], serving["version"], serving["role"]) == ("vLLM", "0.33.0", "engine core")
    cache = serving["kv_cache"]
    assert {name: cache[name] for name in ("bytes", "blocks", "tokens", "bytes_per_block", "layers", "is_exact")} == {
        "bytes": CACHE_BYTES, "blocks": 4096, "tokens": 65536, "bytes_per_block": 4 * 32768, "layers": 4,
        "is_exact": True,
    }  # fmt: skip
    assert (cache["blocks_in_use"], cache["blocks_free"], cache["blocks_with_prefix"]) == (30, 4065, 3)
    assert cache["longest_request_tokens"] == 4095 * 16
    assert serving["requests"] == {
        "running": 2, "waiting": 1, "longest_tokens": 200, "preemptions": 2, "more_that_fit": 254,
    }  # fmt: skip
    assert serving["settings"]["dtype"] == "float16"
    assert serving["settings"]["longest_of_model"] == 131072


def test_the_longest_of_many_requests_is_found(cuda_python: Python):
    program = SERVER.replace("{utilization}", "0.01")
    many = "from like_vllm import LLM, Scheduler\n    Scheduler.tokens_of_running = (*range(100), 500)"
    child = cuda_python.fork(program.replace("from like_vllm import LLM", many))
    child.expect("ready")
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=gpu_variables(cuda_python))[1])
    requests = document["serving"]["requests"]
    assert (requests["running"], requests["longest_tokens"]) == (101, 500)


def test_the_first_lines_say_it_in_the_words_of_the_server(server: Child, cuda_python: Python):
    printed = attach(str(server.pid), "--once", environment=gpu_variables(cuda_python))[1]
    lines = printed.splitlines()
    assert lines[1].startswith("vLLM 0.33.0, engine core: 8.0 MiB are weights and 512 MiB (1% of the device)")
    assert "The server's division of cuda:0" in lines
    assert "free, left by gpu_memory_utilization" in printed
    assert "KV blocks: 30 of 4,096 in use (0.7%), 3 keep a prefix. 2 requests running, 1" in printed
    assert "max_model_len is 1,024; this KV cache allows up to" in printed
    assert "in 4 layers: 512 MiB, 8.0 KiB a token." in " ".join(printed.split())


WORKER = f"""
    import gputui.probe, sys
    sys.path.insert(0, {str(PROGRAMS)!r})
    from like_vllm import EngineCore, Worker

    def begin():
        core = EngineCore.__new__(EngineCore)  # it was making its workers when it forked this process
        core.input_queue = []
        work(Worker(0.01))

    def work(worker):
        print("ready", flush=True)
        input()

    begin()
"""


def test_a_worker_that_was_forked_from_the_engine_is_no_engine(cuda_python: Python):
    child = cuda_python.fork(WORKER)
    child.expect("ready")
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=gpu_variables(cuda_python))[1])
    assert document["serving"]["role"] == "worker"
    assert {"weights", "kv_cache"} <= {part["part"] for part in document["serving"]["division"]}


LIKE_SGLANG = """
    import gputui.probe, sys, types, torch
    from types import SimpleNamespace as Object

    for name in ("sglang", "sglang.version", "sglang.srt.managers.scheduler"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["sglang.version"].__version__ = "0.5.23"
    module = sys.modules["sglang.srt.managers.scheduler"]
    exec('class Scheduler: pass\\ndef event_loop(scheduler): print("ready", flush=True); input()', vars(module))
    SLOTS, PAGE = 4096, 16
    pool = Object(layer_num=4, page_size=PAGE, head_num=2, head_dim=64, v_head_dim=64, dtype=torch.float16)
    pool.k_buffer = [torch.empty(SLOTS + PAGE, 2, 64, dtype=torch.float16, device="cuda") for _ in range(8)]
    scheduler = module.Scheduler()
    vars(scheduler).update(
        token_to_kv_pool_allocator=Object(
            size=SLOTS, num_pages=SLOTS // PAGE, page_size=PAGE, _kvcache=pool, num_staged_pages=2,
            free_pages=torch.arange(200, device="cuda"),
        ),
        tree_cache=Object(
            tree_core=Object(component_evictable_size_={0: 33 * PAGE}, component_protected_size_={0: 80})
        ),
        running_batch=Object(reqs=[Object(kv=Object(kv_allocated_len=90), retraction_count=1)]),
        waiting_queue=[1, 2, 3], max_running_requests=8,
        server_args=Object(model_path="llama", tp_size=1), model_config=Object(dtype=torch.float16),
    )
    module.event_loop(scheduler)
"""


def test_a_scheduler_of_sglang_is_read(cuda_python: Python):
    child = cuda_python.fork(LIKE_SGLANG)
    child.expect("ready")
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=gpu_variables(cuda_python))[1])
    serving = document["serving"]
    cache, requests = serving["kv_cache"], serving["requests"]
    assert (serving["engine"], serving["version"], serving["role"]) == ("SGLang", "0.5.23", "scheduler")
    assert (cache["blocks"], cache["tokens"], cache["layers"]) == (256, 4096, 4)
    assert cache["bytes_per_block"] == 4 * 16 * 2 * 128 * 2
    assert (cache["blocks_free"], cache["blocks_in_use"], cache["blocks_with_prefix"]) == (235, 21, 38)
    assert (requests["running"], requests["waiting"], requests["longest_tokens"]) == (1, 3, 90)


def test_the_process_in_front_of_an_engine_leads_to_it(cuda_python: Python):
    written(cuda_python)
    front = cuda_python.start(FRONT)
    front.expect("ready")
    status, text, errors = attach(str(front.pid), "--once", "--json", environment=gpu_variables(cuda_python))
    assert status == 0, errors
    document = json.loads(text)
    assert document["pid"] != front.pid
    assert document["serving"]["role"] == "engine core"
    assert f"Process {front.pid} is a server's: its model is in {document['pid']}, attached to in its place." in errors


def test_other_flags_are_tried_from_the_command_line(server: Child, cuda_python: Python):
    variables = gpu_variables(cuda_python)
    words = ("--set", "max_model_len:131072", "--set", "kv_cache_dtype:fp8,block_size:32")
    status, text, errors = gputui("whatif", str(server.pid), *words, "--json", environment=variables)
    assert status == 0, errors
    document = json.loads(text)
    longer, denser = document["cases"]
    assert longer["flags"] == {"max_model_len": 131072}
    assert longer["error"].startswith("it does not start: one request of 131,072 tokens needs 1.0 GiB of KV cache")
    assert (denser["blocks"], denser["tokens"]) == (document["now"]["blocks"], 2 * document["now"]["tokens"])
    printed = gputui("whatif", str(server.pid), *words, environment=variables)[1]
    assert "does not start" in printed
    assert "With max_model_len=131072, it does not start" in printed


WRONG = {
    "a flag of the profiling run": ("max_num_seqs:3,block_size:16", 2, "'max_num_seqs' is no flag of a server"),
    "a setting of PyTorch's allocator beside it": ("block_size:16,expandable_segments:True", 2, "is no flag"),
}


@pytest.mark.parametrize(("flags", "status", "words"), WRONG.values(), ids=WRONG)
def test_a_flag_that_cannot_be_tried_is_named(flags: str, status: int, words: str):
    found, _, errors = gputui("whatif", "1", "--set", flags)
    assert found == status
    assert words in errors


def test_a_program_that_serves_nothing_has_no_flags(cuda_python: Python):
    child = cuda_python.fork("import gputui.probe, torch\nprint('ready', flush=True)\ninput()")
    child.expect("ready")
    status, _, errors = gputui("whatif", str(child.pid), "--set", "block_size:32")
    assert status == 1
    assert f"Process {child.pid} runs no server whose arithmetic is known" in errors
