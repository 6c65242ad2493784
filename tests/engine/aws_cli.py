"""The one AWS CLI command that kubeconfigs call, for machines without the AWS CLI: `aws eks get-token`.

The token is made by the product's own code; only the command around it is this file's.
"""

import argparse
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

# Started as a script by an exec plugin, in any folder.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import boto3

from infra.jobs.eks_token import TOKEN_LIFETIME_S, eks_token

_DEFAULT_API_VERSION = "client.authentication.k8s.io/v1beta1"


def main() -> int:
    """Print an ExecCredential, as the AWS CLI does; every other command is refused."""
    parser = argparse.ArgumentParser(prog="aws", description="Only `aws eks get-token`; a stand-in for the tests.")
    parser.add_argument("service", choices=["eks"])
    parser.add_argument("operation", choices=["get-token"])
    parser.add_argument("--cluster-name", required=True)
    parser.add_argument("--region", default=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"))
    parser.add_argument("--output", choices=["json"], default="json")
    parser.add_argument("--profile")
    parser.add_argument("--role-arn")
    options = parser.parse_args()
    if not options.region:
        parser.error("You must specify a region")
    if options.role_arn:
        parser.error("--role-arn is not covered by this stand-in")
    session = boto3.Session(region_name=options.region, profile_name=options.profile)
    expires_at = datetime.now(UTC) + timedelta(seconds=TOKEN_LIFETIME_S - 60)
    credential = {
        "kind": "ExecCredential",
        "apiVersion": _asked_api_version(),
        "spec": {},
        "status": {
            "expirationTimestamp": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "token": eks_token(session, options.cluster_name, options.region),
        },
    }
    print(json.dumps(credential))
    return 0


def _asked_api_version() -> str:
    """A Kubernetes client says in the environment which version of ExecCredential it reads."""
    asked = os.environ.get("KUBERNETES_EXEC_INFO")
    return str(json.loads(asked).get("apiVersion", _DEFAULT_API_VERSION)) if asked else _DEFAULT_API_VERSION


if __name__ == "__main__":
    sys.exit(main())
