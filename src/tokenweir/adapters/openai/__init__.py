"""OpenAI's HTTP interface without the HTTP: what a request asks for, what an answer used.

Pure: bytes in, values out; chat completions, completions, responses and embeddings.
"""
