"""What asking the Envoy service costs, against a gRPC server that says yes to everything."""
