"""Tell the control plane about pools: `apply` and `presets`."""
