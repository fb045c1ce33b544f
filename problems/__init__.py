"""The problem set of ParallelKernelBench.

`registry` and `spec` need nothing but the standard library, so a web process can read them without torch. What
draws and compares values (`inputs`, `outputs`, `families`, `harness`) is imported only where ranks run.
"""
