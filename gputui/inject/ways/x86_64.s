# What the stopped thread runs, for `python -m tests.inject.assemble`, which writes its bytes into x86_64.py.
#
# Every piece leaves the thread as it was, without help from outside: the tracer only starts it, so the program goes on
# unharmed if the tracer dies at any moment. The thread's registers lie on its own stack, below the red zone.
.intel_syntax noprefix

# The data region, in r12: see data_region.py.
.set READY, 0x00
.set STATE, 0x08
.set PID, 0x10
.set ADD_PENDING_CALL, 0x20
.set START_NEW_THREAD, 0x28
.set GIL_ENSURE, 0x30
.set GIL_RELEASE, 0x38
.set NEW_DICT, 0x40
.set MEMORYVIEW, 0x48
.set SET_ITEM, 0x50
.set RUN_STRING, 0x58
.set DEC_REF, 0x60
.set CLEAR_ERROR, 0x68
.set MUNMAP, 0x70
.set CODE, 0x78
.set CODE_BYTES, 0x80
.set DATA_BYTES, 0x88
.set TEXT, 0x90
.set NAME, 0x98
.set REGISTERS, 0x2000

.set QUEUED, 1
.set QUEUE_FULL, 2
.set STARTED, 3
.set NO_THREAD, 4

# Back to where the thread was stopped: its registers are on its stack, below the red zone and the return address.
.macro return_to_program
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rbp
    pop rbx
    pop rdx
    pop rcx
    pop rax
    popfq
    ret 128
.endm

# Unmap the data, and prepare the C library's munmap, in r8, of this code.
.macro unmap_data
    mov r8, [rbx + MUNMAP]
    mov rdx, [rbx + CODE]
    mov r10, [rbx + CODE_BYTES]
    mov rdi, rbx
    mov rsi, [rbx + DATA_BYTES]
    mov eax, 11
    syscall
    mov rdi, rdx
    mov rsi, r10
.endm

# Map the data (read, write) and the code (read, execute). The tracer has set the registers of the first call, rbx to
# the size of the code and rbp to that of the data. At the end of the second call it writes both regions, READY last.
map:
    syscall
    mov r12, rax
    cmp rax, -4096
    ja 3f
    xor edi, edi
    mov rsi, rbx
    mov edx, 5
    mov eax, 9
    syscall
    mov r13, rax
    cmp rax, -4096
    ja 2f
    cmp qword ptr [r12 + READY], 0
    je 1f
    jmp r13
1:  mov rdi, r13                        # the tracer has died: unmap both again
    mov rsi, rbx
    mov eax, 11
    syscall
2:  mov rdi, r12
    mov rsi, rbp
    mov eax, 11
    syscall
3:  return_to_program
map_end:

# Py_AddPendingCall(pending, data), or PyThread_start_new_thread(pending, data), with all vector registers kept. Both
# return -1 where they fail.
queue:
    cld
    mov eax, -1
    mov edx, -1
    xsave64 [r12 + REGISTERS]
    mov r14, rsp
    and rsp, -16
    lea rdi, [rip + pending]
    mov rsi, r12
    mov dword ptr [r12 + STATE], QUEUED # before the call: another thread may run it at once
    call [r12 + ADD_PENDING_CALL]
    cmp eax, -1
    jne 1f
    mov dword ptr [r12 + STATE], QUEUE_FULL
1:  mov rsp, r14
    mov eax, -1
    mov edx, -1
    xrstor64 [r12 + REGISTERS]
    return_to_program

# int pending(data): the pending call. It starts a thread and runs no Python, so no signal handler and no profiler of
# the program meets anything of ours.
pending:
    push rbx
    mov rbx, rdi
    mov eax, 39                         # getpid: a forked child has a copy of the queue
    syscall
    cmp eax, [rbx + PID]
    jne 2f
    mov eax, QUEUED
    mov ecx, STARTED
    lock cmpxchg [rbx + STATE], ecx     # not if it was withdrawn
    jne 2f
    lea rdi, [rip + thread]
    mov rsi, rbx
    call [rbx + START_NEW_THREAD]
    cmp rax, -1
    jne 1f
    mov dword ptr [rbx + STATE], NO_THREAD
1:  xor eax, eax
    pop rbx
    ret
2:  unmap_data
    pop rbx
    jmp r8                              # unmaps this code and returns 0 to the interpreter

# void thread(data): run the text in a new dictionary whose "region" is a memoryview of the data, then unmap all.
thread:
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov rbx, rdi
    xor r12d, r12d
    xor r14d, r14d
    call [rbx + GIL_ENSURE]
    mov r13d, eax
    call [rbx + NEW_DICT]
    mov r12, rax
    test rax, rax
    jz 1f
    mov rdi, rbx
    mov rsi, [rbx + DATA_BYTES]
    mov edx, 0x200                      # PyBUF_WRITE
    call [rbx + MEMORYVIEW]
    mov r14, rax
    test rax, rax
    jz 1f
    mov rdi, r12
    mov rsi, [rbx + NAME]
    mov rdx, r14
    call [rbx + SET_ITEM]
    test eax, eax
    jnz 1f
    mov rdi, [rbx + TEXT]
    mov esi, 257                        # Py_file_input
    mov rdx, r12
    mov rcx, r12
    xor r8d, r8d
    call [rbx + RUN_STRING]
    mov rdi, rax
    call [rbx + DEC_REF]
1:  call [rbx + CLEAR_ERROR]
    mov rdi, r14
    call [rbx + DEC_REF]
    mov rdi, r12
    call [rbx + DEC_REF]
    mov edi, r13d
    call [rbx + GIL_RELEASE]
    unmap_data
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    jmp r8                              # unmaps this code and returns to the thread's start
queue_end:
