"""A scenario in virtual time: `simulate`."""
