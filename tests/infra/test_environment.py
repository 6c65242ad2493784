"""Configuration in, environment out; everything wrong is named at once, in words."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import Purchase
from infra.candidates import region_code
from infra.configuration import ConfigurationReader
from infra.environment import KEYS, Environment, api_key_fault, load, stack_file_values
from infra.timetable import parse_entry
from serving.accelerators import instance_shapes
from serving.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 30)
DEV = stack_file_values((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"), "Pulumi.dev.yaml")


def environment(**changes: Any) -> Environment:
    return load("dev", {**DEV, "apiKeySecret": {"secure": "v1:…"}, **changes}, TODAY)


def faults(**changes: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        environment(**changes)
    return [str(fault) for fault in refused.value.faults]


def test_the_dev_stack() -> None:
    dev = environment()
    assert (dev.region, dev.model.name, dev.shape.name) == ("us-east-2", "kimi-k2.5", "p5en.48xlarge")
    assert [(c.purchase, c.zone) for c in dev.candidates] == [
        (Purchase.SPOT, "use2-az1"),
        (Purchase.ON_DEMAND, "use2-az1"),
        (Purchase.ON_DEMAND, "use2-az2"),
    ]
    assert (dev.weights.size_gib, dev.weights.throughput_mib_per_s, dev.weights.iops) == (650, 1000, 4000)
    assert dev.limits.context_tokens == 262_144
    assert dev.patience_s == 900
    assert dev.cost.timetable.hours_per_week == 55
    assert dev.access.exposure == "cluster"


def test_values_as_the_engine_hands_them_over_read_the_same() -> None:
    text = {key: value if isinstance(value, str) else json.dumps(value) for key, value in DEV.items()}
    assert load("dev", {**text, "apiKeySecret": "k" * 32}, TODAY) == environment()


def test_a_capacity_block_by_zone_name() -> None:
    block = {"purchase": "capacity-block", "zone": "us-east-2a", "reservationId": "cr-0123456789abcdef0"}
    (candidate,) = environment(capacity=[block]).candidates
    assert (candidate.purchase, candidate.reservation_id) == (Purchase.CAPACITY_BLOCK, "cr-0123456789abcdef0")
    assert not candidate.zone_is_id


def test_everything_wrong_is_named_at_once() -> None:
    said = faults(region="mars", kvCacheDtype="int4", idleMinutes=0, capacity=[{"purchase": "spto"}], owner="")
    keys = [fault.split(":")[1].split(" ")[0] for fault in said]
    assert len(keys) == 6
    assert said[0].startswith("dormouse:region: got mars; accepted: an AWS region, such as us-east-2")
    assert "dormouse:capacity[0].purchase: got spto; accepted: on-demand, spot, capacity-block" in said
    assert "dormouse:capacity[0].zone: got nothing" in "\n".join(said)
    assert "dormouse:kvCacheDtype: got int4; accepted: auto, fp8" in said
    assert any(fault.startswith("dormouse:idleMinutes: got 0; accepted: a whole number from 5") for fault in said)
    assert any(fault.startswith("dormouse:owner: got nothing") for fault in said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"regoin": "us-east-2"}, "dormouse:regoin: got a key that nothing reads; accepted: did you mean region?"),
        ({"model": "kimi-k25"}, "kimi-k2-instruct, kimi-k2-thinking, kimi-k2.5, kimi-k2.6"),
        ({"model": "kimi-k25"}, "(did you mean kimi-k2.5?)"),
        ({"instanceType": "p5en.24xlarge"}, "got p5en.24xlarge; accepted: p5.48xlarge, p5e.48xlarge, p5en.48xlarge"),
        ({"instanceType": "p5e.48xlarge", "region": "us-east-1", "capacity": [{"purchase": "spot", "zone": "use1-az1"}]},
         "dormouse:region: got us-east-1; accepted: a region that sells p5e.48xlarge"),
        ({"capacity": []}, "dormouse:capacity: got nothing; accepted: a list of"),
        ({"capacity": "spot"}, "dormouse:capacity: got spot; accepted: a list of"),
        ({"capacity": [{"purchase": "spot", "zone": "us-west-2a"}]}, "accepted: a zone of us-east-2, by name (us-east-2a)"),
        ({"capacity": [{"purchase": "spot", "zone": "use2-az9"}]}, "use2-az9, which does not list p5en.48xlarge"),
        ({"capacity": [{"purchase": "capacity-block", "zone": "use2-az1"}]}, "reservationId: got nothing; accepted: the id"),
        ({"capacity": [{"purchase": "spot", "zone": "use2-az1", "reservationId": "cr-0123456789abcdef0"}]},
         "accepted: nothing, since only capacity-block has a reservation"),
        ({"capacity": [{"purchase": "spot", "zone": "use2-az1"}] * 2}, "got the same as an earlier one"),
        ({"capacity": [{"purchase": "spot", "zone": "use2-az1", "az": 1}]}, "dormouse:capacity[0].az: got 1; accepted: only"),
        ({"replicas": 17}, "dormouse:replicas: got 17; accepted: a whole number from 1 to 16"),
        ({"nodesPerReplica": 5}, "dormouse:nodesPerReplica: got 5; accepted: a whole number from 1 to 4 machines"),
        ({"nodesPerReplica": 2, "instanceType": "p4d.24xlarge"},
         "got 2 with p4d.24xlarge, whose Elastic Fabric Adapters are not on record; accepted: 1, or one of p5.48xlarge"),
        ({"weightsSizeGib": 500}, "dormouse:weightsSizeGib: got 500; accepted: 555 or more for kimi-k2.5"),
        ({"weightsThroughputMibps": 2500}, "accepted: a whole number from 125 to 2,000 MiB/s"),
        ({"weightsIops": 3000}, "dormouse:weightsIops: got 3000; accepted: 4000 or more at 1000 MiB/s"),
        ({"weightsSource": "ftp://host"}, "or s3://bucket/prefix, or the id of a snapshot such as snap-0123456789abcdef0"),
        ({"hydrateOn": "laptop"}, "dormouse:hydrateOn: got laptop; accepted: cheap-node, gpu-node"),
        ({"huggingFaceEndpoint": "http://plain"}, "accepted: the address of a mirror of the hub, https://…"),
        (
            {"weightsSource": "s3://bucket/k", "huggingFaceTokenSecret": "hf_x"},
            "dormouse:huggingFaceTokenSecret: got given; accepted: nothing, with weightsSource s3://bucket/k",
        ),
        ({"contextTokens": 300_000}, "dormouse:contextTokens: got 300000; accepted: a whole number from 1,024 to 262,144"),
        ({"contextTokens": "many"}, "dormouse:contextTokens: got many"),
        ({"exposure": "world"}, "dormouse:exposure: got world; accepted: cluster, internal, public"),
        ({"exposure": "public"}, "dormouse:certificateArn: got nothing; accepted: an ACM certificate's ARN"),
        ({"allowedCidrs": ["10.0.0.1/8"]}, "dormouse:allowedCidrs[0]: got 10.0.0.1/8; accepted: an IPv4 block without host"),
        ({"endpointCidrs": "0.0.0.0"}, "dormouse:endpointCidrs: got 0.0.0.0; accepted: a list of texts"),
        ({"adminPrincipalArns": ["bob"]}, "dormouse:adminPrincipalArns[0]: got bob; accepted: an IAM role's"),
        ({"kubernetesVersion": "1.30"}, "dormouse:kubernetesVersion: got 1.30; accepted: 1.36, 1.35"),
        ({"timetable": ["mon-fri 8-19"]}, "dormouse:timetable[0]: got mon-fri 8-19; accepted: entries such as"),
        ({"timeZone": "Europe/Atlantis"}, "dormouse:timeZone: got Europe/Atlantis; accepted: an IANA time zone"),
        ({"expiresAt": "2020-01-01T00:00:00+00:00"}, "accepted: an ISO time in the future with its offset"),
        ({"expiresAt": "2027-01-01T00:00:00"}, "accepted: an ISO time in the future with its offset"),
        ({"monthlyBudgetUsd": "-5"}, "dormouse:monthlyBudgetUsd: got -5"),
        ({"notifyEmails": ["team"]}, "dormouse:notifyEmails[0]: got team; accepted: an e-mail address"),
        ({"networkCidr": "10.40.0.0/24"}, "dormouse:networkCidr: got 10.40.0.0/24; accepted: a private IPv4 block"),
        ({"accountId": "12345"}, "dormouse:accountId: got 000000012345"),
        ({"apiKeySecret": None}, "dormouse:apiKeySecret: got nothing; accepted: a secret: pulumi config set --secret"),
    ],
)  # fmt: skip
def test_each_fault_in_words(changes: dict[str, Any], said: str) -> None:
    if changes.get("accountId") == "12345":
        changes = {"accountId": "12345x"}
        said = "dormouse:accountId: got"
    assert said in "\n".join(faults(**changes))


def test_a_kubernetes_version_out_of_standard_support_is_refused() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load("dev", {**DEV, "apiKeySecret": "x", "kubernetesVersion": "1.35"}, date(2027, 5, 1))
    assert "1.35 (standard support ended 2027-03-27); accepted: 1.36" in str(refused.value)


def test_unlisted_zones_can_be_allowed() -> None:
    unlisted = [{"purchase": "spot", "zone": "use2-az9"}]
    assert environment(capacity=unlisted, allowUnlistedZones=True).candidates[0].zone == "use2-az9"


def test_a_short_api_key_is_refused_without_being_repeated() -> None:
    fault = api_key_fault("hunter2")
    assert fault is not None
    assert "hunter2" not in fault
    assert "7 characters" in fault
    assert api_key_fault("k" * 24) is None


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2", "config: 3", ""])
def test_a_file_that_is_no_stack_file(text: str) -> None:
    with pytest.raises(ConfigurationError, match="got"):
        stack_file_values(text, "Pulumi.x.yaml")


@given(values=st.dictionaries(st.sampled_from(KEYS), st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=12), st.lists(st.text(max_size=5), max_size=3),
    st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2), max_size=2),
)))  # fmt: skip
def test_whatever_is_written_is_read_or_refused_in_words(values: dict[str, Any]) -> None:
    try:
        load("x", values, TODAY)
    except ConfigurationError as error:
        assert error.faults
        assert all(fault.key and fault.accepted for fault in error.faults)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("mon-fri 08:00-19:00", 55),
        ("daily 22:00-02:00", 28),
        ("sat 10:00-14:00", 4),
        ("fri-mon 00:00-24:00", 96),
    ],
)
def test_timetable_hours(text: str, hours: float) -> None:
    assert environment(timetable=[text]).cost.timetable.hours_per_week == hours


def test_overlaps_count_once() -> None:
    both = environment(timetable=["mon-fri 08:00-12:00", "mon 10:00-14:00"]).cost.timetable
    assert both.hours_per_week == 22


@pytest.mark.parametrize("text", ["", "mon", "mon 8:00-9:00", "xyz 08:00-09:00", "mon 25:00-26:00", "mon 08:00-08:00"])
def test_what_is_no_timetable(text: str) -> None:
    assert parse_entry(text) is None


def test_region_codes_match_the_zone_ids_of_the_data() -> None:
    codes = {zone.split("-")[0] for shape in instance_shapes().values() for zone in shape.zone_ids}
    regions = (
        "us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-north-1", "eu-south-2", "eu-west-2", "eu-west-3",
        "ap-south-1", "ap-south-2", "ap-northeast-1", "ap-northeast-2", "ap-southeast-2", "ap-southeast-3",
        "sa-east-1", "ca-central-1", "me-central-1", "eu-central-1", "eu-west-1", "il-central-1", "ap-northeast-3",
        "ap-southeast-1",
    )  # fmt: skip
    assert codes <= {region_code(region) for region in regions}


def test_faults_of_the_reader_name_the_namespace() -> None:
    reader = ConfigurationReader({"model": 3.5}, ("model",))
    reader.choice("model", ("a", "b"))
    assert str(reader.faults[0]) == "dormouse:model: got 3.5; accepted: a, b"
