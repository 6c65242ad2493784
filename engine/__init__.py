"""Pinned sources of the engine tier: Pulumi's own engine and a Kubernetes control plane, built by `build.py`."""
