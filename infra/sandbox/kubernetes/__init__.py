"""A Kubernetes cluster that runs nothing: a real API over HTTP, real scheduling rules, and pods that only say they run.

`server.KubernetesServer` is the way in.
"""
