"""How `dormouse weights status` looks."""

from infra.jobs.weights.status import WeightsReport, WeightStatus


def print_weights(report: WeightsReport) -> None:
    """Print every volume and every clone."""
    for one in report.statuses:
        print(f"{one.place.zone}  {one.place.volume_id}  {one.state}")
        for name, words in _rows(one):
            print(f"  {name:12}{words}")
    for zone in report.streaming:
        print(f"{zone}  no volume: streams from S3")
    if report.copy_uri:
        print(f"S3  {report.copy_uri}  {report.copy_problem or 'whole'}")
    for clone in report.clones:
        print(f"{clone.zone}  {clone.volume_id}  clone, {clone.size_gib} GiB, {clone.verified or 'unproven'}")


def _rows(one: WeightStatus) -> list[tuple[str, str]]:
    rows = [("weights", one.detail)]
    if one.volume is not None:
        volume = one.volume
        speed = f"{volume.size_gib:,} GiB, {volume.throughput_mib_per_s:,} MiB/s, {volume.iops:,} IOPS"
        rows.append(("volume", f"{speed}; {one.changes_left} changes of speed left in 24 hours"))
        rows.append(("attached", volume.attached_to or "nowhere"))
    rows.extend(
        ("snapshot", f"{shot.snapshot_id} of {shot.started_at:%Y-%m-%d %H:%M}, {shot.state} {shot.progress_percent} %")
        for shot in one.snapshots
    )
    if one.copy_to:
        rows.append(("copy", one.copy_to))
    return rows
