"""CloudWatch: log groups and alarms."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import first, tag_list, tag_map
from infra.sandbox.aws_resources.properties import Properties, Shape, camel, changed, listed, pascal, picked, renamed
from infra.sandbox.aws_resources.resource import ResourceType


class LogGroup(ResourceType):
    """Where logs are kept, and for how long."""

    token = "aws:cloudwatch/logGroup:LogGroup"
    service = "CloudWatch Logs"
    label = "CloudWatch Logs Log Group"
    inputs: ClassVar[Shape] = dict.fromkeys(
        ("name", "kmsKeyId", "logGroupClass", "retentionInDays", "skipDestroy", "tags")
    )
    computed = ("arn", "tagsAll")
    replace_on = frozenset({"logGroupClass"})
    name_key = "name"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        request = picked(
            inputs, name="logGroupName", kmsKeyId="kmsKeyId", logGroupClass="logGroupClass", tagsAll="tags"
        )
        clients.client("logs").create_log_group(**request)
        self._retain(clients, inputs["name"], {}, inputs)
        return str(inputs["name"])

    def _retain(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        logs = clients.client("logs")
        if new.get("retentionInDays"):
            logs.put_retention_policy(logGroupName=resource_id, retentionInDays=new["retentionInDays"])
        elif old.get("retentionInDays"):
            logs.delete_retention_policy(logGroupName=resource_id)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        logs = clients.client("logs")
        if changed(old, new, "retentionInDays"):
            self._retain(clients, resource_id, old, new)
        if changed(old, new, "kmsKeyId"):
            if new.get("kmsKeyId"):
                logs.associate_kms_key(logGroupName=resource_id, kmsKeyId=new["kmsKeyId"])
            else:
                logs.disassociate_kms_key(logGroupName=resource_id)

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        logs = clients.client("logs")
        if put:
            logs.tag_log_group(logGroupName=resource_id, tags=put)
        if drop:
            logs.untag_log_group(logGroupName=resource_id, tags=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        logs = clients.client("logs")
        groups = logs.describe_log_groups(logGroupNamePrefix=resource_id)["logGroups"]
        found = next((group for group in groups if group["logGroupName"] == resource_id), None)
        if found is None:
            return None
        return {
            "arn": str(found["arn"]).removesuffix(":*"),
            "kmsKeyId": found.get("kmsKeyId"),
            "name": resource_id,
            "retentionInDays": found.get("retentionInDays"),
            "tagsAll": logs.list_tags_log_group(logGroupName=resource_id).get("tags") or {},
            **picked(found, "logGroupClass"),
        }

    def delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Delete it, unless `skipDestroy` says to leave it."""
        if not state.get("skipDestroy"):
            super().delete(clients, resource_id, state)

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("logs").delete_log_group(logGroupName=resource_id)


class MetricAlarm(ResourceType):
    """A threshold on a metric or an expression of metrics."""

    token = "aws:cloudwatch/metricAlarm:MetricAlarm"
    service = "CloudWatch"
    label = "CloudWatch Metric Alarm"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(
            (
                "actionsEnabled",
                "alarmActions",
                "alarmDescription",
                "comparisonOperator",
                "datapointsToAlarm",
                "dimensions",
                "evaluateLowSampleCountPercentiles",
                "evaluationPeriods",
                "extendedStatistic",
                "insufficientDataActions",
                "metricName",
                "name",
                "namespace",
                "okActions",
                "period",
                "statistic",
                "tags",
                "threshold",
                "thresholdMetricId",
                "treatMissingData",
                "unit",
            )
        ),
        "metricQueries": {
            **dict.fromkeys(("id", "accountId", "expression", "label", "period", "returnData")),
            "metric": dict.fromkeys(("metricName", "period", "stat", "dimensions", "namespace", "unit")),
        },
    }
    required = ("comparisonOperator", "evaluationPeriods")
    defaults: ClassVar[Mapping[str, Any]] = {"actionsEnabled": True, "treatMissingData": "missing"}
    computed = ("arn", "tagsAll")
    name_key = "name"

    # Pulumi's name = AWS's, where it isn't just a capital letter.
    _RENAMED: ClassVar[dict[str, str]] = {
        "name": "AlarmName",
        "okActions": "OKActions",
        "evaluateLowSampleCountPercentiles": "EvaluateLowSampleCountPercentile",
    }
    _NOT_PLAIN = ("dimensions", "metricQueries", "tags", "tagsAll", "__defaults")

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        self._put(clients, inputs, Tags=tag_list(inputs.get("tagsAll")))
        return str(inputs["name"])

    def _put(self, clients: AwsClients, inputs: Properties, **more: Any) -> None:
        plain = {
            self._RENAMED.get(key, pascal(key)): value for key, value in inputs.items() if key not in self._NOT_PLAIN
        }
        if inputs.get("dimensions"):
            plain["Dimensions"] = _dimension_list(inputs["dimensions"])
        queries: list[dict[str, Any]] = []
        for query in listed(inputs, "metricQueries"):
            one: dict[str, Any] = picked(
                query, id="Id", accountId="AccountId", expression="Expression", label="Label", period="Period"
            )
            one["ReturnData"] = bool(query.get("returnData", False))
            metric = query.get("metric")
            if metric:
                one["MetricStat"] = {
                    "Metric": {
                        **picked(metric, metricName="MetricName", namespace="Namespace"),
                        "Dimensions": _dimension_list(metric.get("dimensions")),
                    },
                    **picked(metric, period="Period", stat="Stat", unit="Unit"),
                }
            queries.append(one)
        if queries:
            plain["Metrics"] = queries
        clients.client("cloudwatch").put_metric_alarm(**plain, **more)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        self._put(clients, new)

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        watch = clients.client("cloudwatch")
        if put:
            watch.tag_resource(ResourceARN=state["arn"], Tags=tag_list(put))
        if drop:
            watch.untag_resource(ResourceARN=state["arn"], TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        watch = clients.client("cloudwatch")
        found = first(watch.describe_alarms(AlarmNames=[resource_id], AlarmTypes=["MetricAlarm"]), "MetricAlarms")
        if found is None:
            return None
        ours = {theirs: name for name, theirs in self._RENAMED.items()}
        known = [key for key in self.inputs if key not in self._NOT_PLAIN]
        plain = {ours.get(key, camel(key)): value for key, value in found.items()}
        arn = found["AlarmArn"]
        return {
            **{key: plain.get(key) or None for key in known},
            "actionsEnabled": bool(found.get("ActionsEnabled")),
            "arn": arn,
            "dimensions": {one["Name"]: one["Value"] for one in listed(found, "Dimensions")},
            "metricQueries": [_query(one) for one in listed(found, "Metrics")],
            "tagsAll": tag_map(watch.list_tags_for_resource(ResourceARN=arn).get("Tags")),
            "threshold": found.get("Threshold"),
            "treatMissingData": found.get("TreatMissingData") or "missing",
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("cloudwatch").delete_alarms(AlarmNames=[resource_id])


def _dimension_list(dimensions: dict[str, str] | None) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in (dimensions or {}).items()]


def _query(found: dict[str, Any]) -> Properties:
    query: Properties = renamed({key: value for key, value in found.items() if key != "MetricStat"}, camel)
    stat = found.get("MetricStat")
    if stat:
        metric = stat["Metric"]
        query["metric"] = {
            **picked(metric, MetricName="metricName", Namespace="namespace"),
            **picked(stat, Period="period", Stat="stat", Unit="unit"),
            "dimensions": {one["Name"]: one["Value"] for one in listed(metric, "Dimensions")},
        }
    return query
