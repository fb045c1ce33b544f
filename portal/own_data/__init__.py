"""What an account holds: taken along as a file, and removed when its owner leaves."""
