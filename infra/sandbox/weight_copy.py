"""The regional copy of the weights in the simulated cloud: a marker that says so, and no byte of weights."""

import json
from datetime import datetime

from infra.outputs import StackOutputs
from infra.sandbox.world import simulated_client
from serving.weights.marker import MARKER_PATH


def fill_simulated_copy(outputs: StackOutputs, aws_endpoint_url: str, now: datetime) -> None:
    """Let the copy of the stack count as filled; a stack without one is left alone."""
    if not outputs.weights_copy_uri:
        return
    bucket, _, folder = outputs.weights_copy_uri.removeprefix("s3://").partition("/")
    body = json.dumps({"how": "simulated; nothing was copied", "verified_at": now.isoformat(timespec="seconds")})
    s3 = simulated_client("s3", aws_endpoint_url, outputs.region)
    s3.put_object(Bucket=bucket, Key=f"{folder}/{MARKER_PATH}", Body=body.encode())
