"""What pages show of a report and of sources: a report goes in, data for a page comes out."""
