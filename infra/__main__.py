"""The Pulumi program: read the configuration, build the stack."""

from infra.program import run

run()
