"""The EKS control plane, its add-ons and the small node group that keeps the cluster alive while GPUs sleep."""

import base64
import json
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components._inputs import Arguments
from components.iam_documents import trusted_service, trusted_service_with_tags
from components.objects import KubernetesObject
from serving.manifests.device_plugin import device_plugin

# What kubelets need before the first node can join, in this order of need; the others need a node to run on.
_BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
_ON_NODES = ("coredns", "aws-ebs-csi-driver", "eks-node-monitoring-agent")
ADDONS = _BEFORE_NODES + _ON_NODES
_MANAGED_POLICY = "arn:aws:iam::aws:policy/"
_NODE_POLICIES = ("AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly")


class ClusterArgs(TypedDict):
    """Arguments of `Cluster`."""

    region: str
    """The AWS region, such as `us-east-2`."""
    kubernetes_version: str
    """The Kubernetes minor in EKS's standard support, such as `1.36`."""
    addon_versions: dict[str, str]
    """The exact version of each add-on: vpc-cni, kube-proxy, eks-pod-identity-agent, coredns, aws-ebs-csi-driver,
    eks-node-monitoring-agent."""
    control_plane_subnet_ids: pulumi.Input[list[str]]
    """Subnets in at least two zones for the API server's network interfaces."""
    node_subnet_ids: pulumi.Input[list[str]]
    """Private subnets for the system nodes."""
    endpoint_cidrs: NotRequired[list[str]]
    """Addresses that may reach the API server from outside the VPC. Default: none, so it is private."""
    admin_principal_arns: NotRequired[list[str]]
    """IAM principals that administer the cluster, beside the one that creates it."""
    system_instance_type: NotRequired[str]
    """Arm machine of the system node group. Default: t4g.medium."""
    log_retention_days: NotRequired[int]
    """Days that audit and authenticator logs are kept. Default: 30."""
    deletion_protection: NotRequired[bool]
    """Whether AWS refuses to delete the cluster. Default: false."""
    tags: NotRequired[dict[str, str]]
    """Tags of every resource."""
    instance_tags: NotRequired[dict[str, str]]
    """Tags of the system node and its disk. A change replaces the node, so only what stays the same belongs here."""


class Cluster(pulumi.ComponentResource):
    """An EKS cluster in standard support with pinned add-ons, Pod Identity, encrypted secrets and one system node."""

    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    endpoint: pulumi.Output[str]
    """The API server's URL."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig that asks the AWS CLI for a token; it holds no secret."""
    node_role_arn: pulumi.Output[str]
    """The IAM role of every node."""
    security_group_id: pulumi.Output[str]
    """The cluster's own security group, which nodes share with the control plane."""

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the cluster; physical name = `name`."""
        super().__init__("dormouse:index:Cluster", name, {}, opts)
        given = Arguments("Cluster", args)
        region = given.text("region")
        version = given.text("kubernetes_version")
        addon_versions = dict(args.get("addon_versions") or {})
        for missing in (known for known in ADDONS if known not in addon_versions):
            given.fault("addon_versions", f"got no version of {missing}; every add-on is pinned")
        control_plane_subnet_ids = given.required("control_plane_subnet_ids")
        node_subnet_ids = given.required("node_subnet_ids")
        endpoint_cidrs = given.texts("endpoint_cidrs")
        admins = given.texts("admin_principal_arns")
        system_instance_type = given.text("system_instance_type", "t4g.medium")
        retention = given.whole_number("log_retention_days", 30, 1, 3653)
        given.check()
        tags = given.tags()
        child = pulumi.ResourceOptions(parent=self)

        key = aws.kms.Key(
            f"{name}-secrets",
            description=f"Kubernetes secrets of the cluster {name}",
            enable_key_rotation=True,
            deletion_window_in_days=7,
            tags=tags,
            opts=child,
        )
        role, role_policies = self._role(
            f"{name}-control-plane", trusted_service_with_tags("eks.amazonaws.com"), ("AmazonEKSClusterPolicy",), tags
        )
        # EKS would make the log group itself and keep its logs for ever.
        logs = aws.cloudwatch.LogGroup(
            f"{name}-control-plane", name=f"/aws/eks/{name}/cluster", retention_in_days=retention, tags=tags, opts=child
        )
        cluster = aws.eks.Cluster(
            name,
            name=name,
            role_arn=role.arn,
            version=version,
            bootstrap_self_managed_addons=False,
            deletion_protection=bool(args.get("deletion_protection", False)),
            # The default, EXTENDED, turns silently into six times the price when a version ages.
            upgrade_policy={"support_type": "STANDARD"},
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": True},
            encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=["audit", "authenticator"],
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=control_plane_subnet_ids,
                endpoint_private_access=True,
                endpoint_public_access=bool(endpoint_cidrs),
                public_access_cidrs=endpoint_cidrs or None,
            ),
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*role_policies, logs]),
        )
        for index, arn in enumerate(sorted(admins)):
            entry = aws.eks.AccessEntry(
                f"{name}-admin-{index}", cluster_name=cluster.name, principal_arn=arn, tags=tags, opts=child
            )
            aws.eks.AccessPolicyAssociation(
                f"{name}-admin-{index}",
                cluster_name=cluster.name,
                principal_arn=entry.principal_arn,
                policy_arn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                access_scope={"type": "cluster"},
                opts=child,
            )

        cni_role, cni_policies = self._role(
            f"{name}-vpc-cni", trusted_service_with_tags("pods.eks.amazonaws.com"), ("AmazonEKS_CNI_Policy",), tags
        )
        csi_role, csi_policies = self._role(
            f"{name}-ebs-csi",
            trusted_service_with_tags("pods.eks.amazonaws.com"),
            ("AmazonEBSCSIDriverPolicyV2",),
            tags,
        )
        identities: dict[str, tuple[str, aws.iam.Role]] = {
            "vpc-cni": ("aws-node", cni_role),
            "aws-ebs-csi-driver": ("ebs-csi-controller-sa", csi_role),
        }
        # NetworkPolicy objects do nothing on EKS until the CNI is told to enforce them.
        settings = {"vpc-cni": {"enableNetworkPolicy": "true"}}

        def addon(addon_name: str, after: list[pulumi.Resource]) -> aws.eks.Addon:
            account = identities.get(addon_name)
            return aws.eks.Addon(
                f"{name}-{addon_name}",
                cluster_name=cluster.name,
                addon_name=addon_name,
                addon_version=addon_versions[addon_name],
                resolve_conflicts_on_create="OVERWRITE",
                resolve_conflicts_on_update="OVERWRITE",
                configuration_values=json.dumps(settings[addon_name]) if addon_name in settings else None,
                pod_identity_associations=(
                    [{"service_account": account[0], "role_arn": account[1].arn}] if account else None
                ),
                tags=tags,
                opts=pulumi.ResourceOptions(parent=self, depends_on=after),
            )

        first = [addon(addon_name, list(cni_policies)) for addon_name in _BEFORE_NODES]
        node_role, node_policies = self._role(
            f"{name}-node", trusted_service("ec2.amazonaws.com"), _NODE_POLICIES, tags
        )
        template = aws.ec2.LaunchTemplate(
            f"{name}-system",
            update_default_version=True,
            metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1, "http_endpoint": "enabled"},
            block_device_mappings=[
                {
                    "device_name": "/dev/xvda",
                    "ebs": {
                        "volume_size": 20,
                        "volume_type": "gp3",
                        "encrypted": "true",
                        "delete_on_termination": "true",
                    },
                }
            ],
            tag_specifications=[
                {"resource_type": kind, "tags": {**given.tags("instance_tags"), "Name": f"{name}-system"}}
                for kind in ("instance", "volume")
            ],
            tags=tags,
            opts=child,
        )
        system = aws.eks.NodeGroup(
            f"{name}-system",
            cluster_name=cluster.name,
            node_role_arn=node_role.arn,
            subnet_ids=node_subnet_ids,
            ami_type="AL2023_ARM_64_STANDARD",
            version=version,
            instance_types=[system_instance_type],
            capacity_type="ON_DEMAND",
            scaling_config={"desired_size": 1, "min_size": 1, "max_size": 2},
            update_config={"max_unavailable": 1},
            node_repair_config={"enabled": True},
            launch_template={"id": template.id, "version": template.latest_version.apply(lambda v: str(int(v)))},
            labels={"dormouse.dev/pool": "system"},
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*first, *node_policies]),
        )
        later = [addon(addon_name, [system, *csi_policies]) for addon_name in _ON_NODES]

        self.kubeconfig = pulumi.Output.all(cluster.name, cluster.endpoint, cluster.certificate_authority).apply(
            lambda v: _kubeconfig(v[0], v[1], v[2]["data"], region)
        )
        # The API server's objects go first when everything is destroyed, while it can still be reached.
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[system]),
        )
        KubernetesObject(
            f"{name}-device-plugin",
            device_plugin(),
            pulumi.ResourceOptions(parent=self, provider=self.kubernetes, depends_on=later),
        )

        self.cluster_name = cluster.name
        self.endpoint = cluster.endpoint
        self.node_role_arn = node_role.arn
        self.security_group_id = cluster.vpc_config.apply(lambda config: config.cluster_security_group_id or "")
        # Whoever deploys pods or node groups waits for the add-ons that they need.
        self.ready: list[pulumi.Resource] = [system, *first, *later]
        self.register_outputs(
            {
                "clusterName": self.cluster_name,
                "endpoint": self.endpoint,
                "kubeconfig": self.kubeconfig,
                "nodeRoleArn": self.node_role_arn,
                "securityGroupId": self.security_group_id,
            }
        )

    def _role(
        self, name: str, trust: str, managed_policies: tuple[str, ...], tags: dict[str, str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        role = aws.iam.Role(name, assume_role_policy=trust, tags=tags, opts=pulumi.ResourceOptions(parent=self))
        attached: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy.rsplit('/', 1)[-1]}",
                role=role.name,
                policy_arn=_MANAGED_POLICY + policy,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for policy in managed_policies
        ]
        return role, attached


def _kubeconfig(cluster_name: str, endpoint: str, authority: str, region: str) -> str:
    """A kubeconfig whose token comes from `aws eks get-token` at each use."""
    cluster: dict[str, str] = {"server": endpoint}
    if authority and base64.b64decode(authority):
        cluster["certificate-authority-data"] = authority
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster_name, "cluster": cluster}],
            "contexts": [{"name": cluster_name, "context": {"cluster": cluster_name, "user": cluster_name}}],
            "current-context": cluster_name,
            "users": [
                {
                    "name": cluster_name,
                    "user": {
                        "exec": {
                            "apiVersion": "client.authentication.k8s.io/v1beta1",
                            "command": "aws",
                            "args": [
                                "eks",
                                "get-token",
                                "--cluster-name",
                                cluster_name,
                                "--region",
                                region,
                                "--output",
                                "json",
                            ],
                            "interactiveMode": "Never",
                        }
                    },
                }
            ],
        }
    )
