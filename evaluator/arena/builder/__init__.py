"""What runs in the builder's sandbox: compiles what a submission wants compiled."""
