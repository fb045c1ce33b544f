"""Storage of large objects that messages only name: an S3-compatible bucket, or a folder on one machine."""
