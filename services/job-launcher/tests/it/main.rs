//! The job-launcher against a real API server and a real bus.
