"""A simulated AWS and a simulated Kubernetes control plane, and the real program run in them."""
