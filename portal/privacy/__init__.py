"""An account's own data: exported as a file, and removed when its owner leaves."""
