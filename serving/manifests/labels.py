"""Labels, annotations and the GPU taint: one spelling for manifests, node groups, jobs and the brain."""

PREFIX = "dormouse.dev"

# On nodes and in selectors.
POOL_LABEL = f"{PREFIX}/pool"
SLOT_LABEL = f"{PREFIX}/slot"
PURCHASE_LABEL = f"{PREFIX}/purchase"
# Only where there are several replicas: which of them a node serves, as the lane's number.
REPLICA_LABEL = f"{PREFIX}/replica"
ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
ZONE_TOPOLOGY_LABEL = "topology.kubernetes.io/zone"
GPU_RESOURCE = "nvidia.com/gpu"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
GPU_TAINT_KEY = "nvidia.com/gpu"
GPU_TAINT_VALUE = "true"

# On pods. A pod whose ACCEPTING_LABEL is not "true" keeps its connections and gets no new ones.
ZONE_LABEL = f"{PREFIX}/zone"
ACCEPTING_LABEL = f"{PREFIX}/accepting"
# In place of ZONE_LABEL on every pod but the first replica's first: a Deployment's selector can never change, and that
# of the first asks for nothing but the zone.
PLACE_LABEL = f"{PREFIX}/place"
PLANNED_LOAD_ANNOTATION = f"{PREFIX}/planned-load-s"
PLAN_ANNOTATION = f"{PREFIX}/plan"

# On Deployments and on the operation's lock, written by jobs: what they did last, why, and what they are at.
STATE_ANNOTATION = f"{PREFIX}/state"
REASON_ANNOTATION = f"{PREFIX}/reason"
CHANGED_ANNOTATION = f"{PREFIX}/changed-at"
MOVING_ANNOTATION = f"{PREFIX}/moving"
GOAL_ANNOTATION = f"{PREFIX}/goal"
OUTCOME_ANNOTATION = f"{PREFIX}/outcome"

# On volumes: without it the EBS CSI driver's own policy refuses to attach (AmazonEBSCSIDriverPolicyV2).
CSI_VOLUME_TAG = "ebs.csi.aws.com/cluster"


def app_labels(instance: str) -> dict[str, str]:
    """Labels of every object of one model server called `instance`."""
    return {
        "app.kubernetes.io/name": "vllm",
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/managed-by": "dormouse",
    }


def pod_selector(instance: str) -> dict[str, str]:
    """The labels that never change on the pods of `instance`."""
    return {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": instance}
