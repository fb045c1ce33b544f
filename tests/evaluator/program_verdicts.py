"""The small programs of `submissions/` with the verdicts that they must get; without pytest, for tools on a node."""

from evaluator.contract import Backend, Verdict

# Program, verdict, the rank that is named (None: either), words the author must read.
PROGRAMS = [
    ("correct", Verdict.PASSED, None, "2 ranks"),
    ("wrong_on_rank_one", Verdict.WRONG_RESULT, 1, "[0, 5]"),
    ("wrong_shape", Verdict.WRONG_SHAPE, 0, "expected bfloat16"),
    ("wrong_dtype", Verdict.WRONG_SHAPE, 0, "float32"),
    ("returns_two", Verdict.WRONG_SHAPE, 0, "received 2"),
    ("returns_nothing", Verdict.WRONG_SHAPE, 0, "NoneType"),
    ("not_finite", Verdict.NOT_FINITE, 0, "[0, 7]"),
    ("mutates_input", Verdict.INPUT_MUTATED, 0, "'tensor'"),
    ("raises_on_rank_one", Verdict.RUNTIME_ERROR, 1, "no plan for this shape"),
    ("exits_cleanly", Verdict.EARLY_EXIT, 1, "code 0"),
    ("exits_by_sys", Verdict.EARLY_EXIT, None, "code 0"),
    ("closes_descriptors", Verdict.EARLY_EXIT, None, "closed its channel"),
    ("segfault", Verdict.CRASHED, 1, "SIGSEGV"),
    ("deadlock", Verdict.DEADLOCK, 0, "rank 0 waits in all_reduce called at solution.py:7"),
    ("deadlock_with_open_signals", Verdict.DEADLOCK, 0, "solution.py:13 (collective 1 of the call, all_reduce of"),
    ("deadlock_by_handle", Verdict.DEADLOCK, 0, "rank 0 waits for an operation that it began, at solution.py:7"),
    ("loop_beside_handle", Verdict.TIMEOUT, 1, "rank 0 waits for an operation that it began, at solution.py:8"),
    ("crossed_collectives", Verdict.DEADLOCK, None, "ranks 0, 1 wait in recv called at solution.py:7"),
    ("thread_goes_on", Verdict.TIMEOUT, 0, "beside threads that may still act"),
    ("infinite_loop", Verdict.TIMEOUT, 1, "rank 0 waits in all_reduce"),
    ("hangs_on_import", Verdict.TIMEOUT, None, "importing"),
    ("stale_cache", Verdict.STALE_OUTPUT, 0, "earlier call"),
    ("flaky", Verdict.NONDETERMINISTIC, 1, "output 'out' was wrong at first, and correct in 2 of 2"),
    ("prints_a_lot", Verdict.PASSED, None, "2 ranks"),
    ("import_error", Verdict.IMPORT_ERROR, None, "a_module_that_nobody_has"),
    ("no_solution", Verdict.IMPORT_ERROR, None, "solution"),
    ("explores", Verdict.PASSED, None, "2 ranks"),
    ("forges_a_record", Verdict.TAMPERED, 1, "channel"),
    ("too_much_memory", Verdict.OUT_OF_MEMORY, None, "allocate"),
]

# For GPUs: program, problem, backend.
RIGHT = (
    ("gpu_allgather", "allgather", Backend.CUDA),
    ("gpu_gemm_allreduce", "gemm_allreduce", Backend.CUDA),
    ("gpu_allgather_triton", "allgather", Backend.TRITON),
)
BROKEN = (
    ("gpu_gemm_allreduce_wrong", "gemm_allreduce", {Verdict.WRONG_RESULT}),
    ("gpu_allgather_compile_error", "allgather", {Verdict.COMPILE_ERROR}),
    ("gpu_allgather_illegal", "allgather", {Verdict.CRASHED}),
    # A kernel that spins on a flag looks from outside like one that works: both verdicts say what was seen.
    ("gpu_allgather_hanging", "allgather", {Verdict.DEADLOCK, Verdict.TIMEOUT}),
)

# One per primitive, for the problem allgather: program, backend, verdict where every rank has a GPU of its own.
PRIMITIVES = (
    ("primitive_copy_engine", Backend.CUDA, Verdict.PASSED),
    ("primitive_host_memory", Backend.PYTORCH, Verdict.PASSED),
    ("primitive_multimem", Backend.CUDA, Verdict.UNSUPPORTED),
    ("primitive_nccl", Backend.PYTORCH, Verdict.PASSED),
    ("primitive_nccl_device", Backend.NCCL_DEVICE, Verdict.PASSED),
    ("primitive_nccl_hidden", Backend.CUDA, Verdict.PASSED),
    ("primitive_nvshmem", Backend.NVSHMEM, Verdict.PASSED),
    ("primitive_tma", Backend.CUDA, Verdict.PASSED),
)
