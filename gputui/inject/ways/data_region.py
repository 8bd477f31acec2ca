"""The data region of the code that the stopped thread runs: where the code finds its inputs and reports its state."""

from __future__ import annotations

PAGE_BYTES = 0x10000
"""The largest page of any Linux that is supported: regions are multiples of it."""

READY, STATE, INNER_PID = 0x00, 0x08, 0x10
ADD_PENDING_CALL = 0x20
FUNCTIONS = {
    ADD_PENDING_CALL: "Py_AddPendingCall",
    0x28: "PyThread_start_new_thread",
    0x30: "PyGILState_Ensure",
    0x38: "PyGILState_Release",
    0x40: "PyDict_New",
    0x48: "PyMemoryView_FromMemory",
    0x50: "PyDict_SetItemString",
    0x58: "PyRun_StringFlags",
    0x60: "Py_DecRef",
    0x68: "PyErr_Clear",
}
"""The interpreter's functions that the code calls, by the offset of their address in the data region."""
MUNMAP, CODE, CODE_SIZE, DATA_SIZE, TEXT, NAME = 0x70, 0x78, 0x80, 0x88, 0x90, 0x98
NAME_AT = 0x100
REPORT_AT, REPORT_BYTES = 0x1000, 0x1000
TEXT_AT = 0x8000
"""Between the report and the text, the code keeps vector registers: 2.7 KiB with AVX-512, 11 KiB with AMX."""


class State:
    """The data region's `STATE`, as the code sets it; `WITHDRAWN` is set from outside."""

    NEW = 0
    QUEUED = 1
    QUEUE_FULL = 2
    STARTED = 3
    NO_THREAD = 4
    WITHDRAWN = 5
