"""Tests on Pulumi's own engine and a real Kubernetes control plane; see conftest.py for the fixtures."""
