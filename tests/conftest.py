"""Settings of every tier's tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
