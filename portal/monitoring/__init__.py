"""What operators see: metrics for Prometheus, an identifier and a log line for every request."""
