//! The pruner against a real API server and a real bus.
