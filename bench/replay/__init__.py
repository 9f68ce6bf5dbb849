"""An hour of requests folded again, against a fold of the same requests one by one."""
