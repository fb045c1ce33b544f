"""Layer-wise extended Kalman filter step with sharded covariance blocks."""
