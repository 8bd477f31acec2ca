"""Which texts of exceptions are errors of memory that PyTorch's observer does not report, and what they say."""

from __future__ import annotations

import pytest

from gputui.probe.black_box.unreported import FRAMES_AT_MOST, memory_error_in

TEXTS = {
    "cuBLAS": ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cuBLAS", 0),
    "cuDNN": ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cuDNN", 0),
    "cuSOLVER": ("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling ...", "a CUDA library", 0),
    "cuFFT": ("cuFFT error: CUFFT_ALLOC_FAILED", "a CUDA library", 0),
    "NCCL's buffers": ("NCCL error ... Last error:\nFailed to CUDA calloc 8388608 bytes", "NCCL", 8 << 20),
    "NCCL's transport": ("NCCL error: unhandled cuda error\nCuda failure 2 'out of memory'", "NCCL", 0),
    "the driver": ("CUDA error: out of memory\nCUDA kernel errors might be ...", "CUDA", 0),
    "a pinning thread": (
        "Caught AcceleratorError in pin memory thread for device 0.\nTraceback: ...\nCUDA error: out of memory",
        "pinned host memory",
        0,
    ),
    "another allocator": ("CUDA out of memory. Tried to allocate 2.00 GiB.", "PyTorch", 0),
}
OTHERS = {
    "an illegal access": RuntimeError("CUDA error: an illegal memory access was encountered"),
    "host memory": RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
    "cuBLAS, for another reason": RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling ..."),
    "a text of the program": ValueError("the last run ended with: CUDA out of memory."),
    "a timeout of NCCL": RuntimeError("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)"),
    "an interrupt": KeyboardInterrupt("CUDA out of memory"),
}


@pytest.mark.parametrize(("text", "asked", "size_bytes"), TEXTS.values(), ids=TEXTS)
def test_an_error_of_memory_is_told_by_its_text(text, asked, size_bytes):
    found = memory_error_in(RuntimeError(text))
    assert found is not None
    assert (found.asked, found.requested_bytes, found.stack) == (asked, size_bytes, [])


@pytest.mark.parametrize("error", OTHERS.values(), ids=OTHERS)
def test_other_errors_are_none(error):
    assert memory_error_in(error) is None


def test_the_error_is_found_in_its_chain_and_the_stack_is_its_own():
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise RuntimeError(TEXTS["cuBLAS"][0])

    try:
        try:
            deep(150)
        except RuntimeError as cause:
            raise SystemExit(3) from cause
    except SystemExit as end:
        found = memory_error_in(end)
    assert found is not None
    assert len(found.stack) == FRAMES_AT_MOST
    assert {site["function"] for site in found.stack} == {"deep"}


def test_a_text_that_cannot_be_read_is_none():
    class BrokenError(RuntimeError):
        def __str__(self) -> str:
            raise OSError

    assert memory_error_in(BrokenError()) is None


def test_a_chain_that_leads_back_to_itself_ends():
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__context__, other.__context__ = other, one
    assert memory_error_in(one) is None
