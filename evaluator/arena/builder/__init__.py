"""The program in the builder's sandbox: compiles what a submission needs."""
