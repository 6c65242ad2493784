"""`dormouse image recipe`: how to bake the engine's image into a disk; no cloud is asked and nothing is run."""

import argparse
import json
from typing import TYPE_CHECKING

from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers
    from serving.image_recipe import ImageRecipe

_DESCRIPTION = """\
Print a recipe that bakes the engine's image into a snapshot or an AMI, ready to paste, for the pinned image.

The recipe is text: nothing is run, and it has not been tried on a live AWS account. What it gains is an estimate
(`dormouse plan`, under "Ways to load")."""
_EXAMPLES = """\
  dormouse image recipe --region us-east-2 --zone us-east-2a
  dormouse image recipe --kind ami --region us-east-2 --json | jq -r '.steps[].text'
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    from serving.image_recipe import KINDS

    summary = "a recipe that bakes the engine's image into a disk"
    parser = add_parser(commands, "image", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("action", choices=("recipe",), help="what to print")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help=f"default: {KINDS[0]}")
    parser.add_argument("--region", metavar="REGION", default="us-east-2", help="default: us-east-2")
    parser.add_argument("--zone", metavar="ZONE", help="zone of the builder (default: the region's a)")
    parser.add_argument("--kubernetes-version", metavar="MINOR", help="of the nodes (default: what Dormouse deploys)")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the recipe."""
    import re
    from dataclasses import asdict

    from infra.versions import default_kubernetes_version
    from serving.errors import ConfigurationError, Fault
    from serving.image_recipe import image_recipe

    region, zone = arguments.region, arguments.zone or f"{arguments.region}a"
    version = arguments.kubernetes_version or default_kubernetes_version()
    faults: list[Fault] = []
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region):
        faults.append(Fault("--region", region, "an AWS region, such as us-east-2"))
    elif not re.fullmatch(re.escape(region) + r"(-[a-z0-9-]+)?[a-z]", zone):
        faults.append(Fault("--zone", zone, f"a zone of {region} by name, such as {region}a"))
    if not re.fullmatch(r"1\.\d{2}", version):
        faults.append(Fault("--kubernetes-version", version, "a minor, such as 1.36"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    recipe = image_recipe(arguments.kind, region, zone, version)
    print(json.dumps(asdict(recipe), indent=2) if arguments.json else _text(recipe))
    return 0


def _text(recipe: "ImageRecipe") -> str:
    blocks = [f"# Bakes {recipe.image} ({recipe.kind}). Not tried on a live account; nothing has been run."]
    for number, step in enumerate(recipe.steps, 1):
        blocks.append(f"# {number}. {step.title} (on {step.where})\n{step.text}")
    blocks.append("\n".join(f"# Note: {caveat}" for caveat in recipe.caveats))
    return "\n\n".join(blocks)
