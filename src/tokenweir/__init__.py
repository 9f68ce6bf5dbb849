"""Tokenweir: a control plane on Kafka that shares LLM inference capacity among tenants."""
