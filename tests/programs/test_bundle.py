import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from components.programs.bundle import CONFIG_MAP_LIMIT_BYTES, BundleError, bundle, bundle_digest
from components.programs.hydrator import ENTRY, MODULES


def test_the_same_sources_give_the_same_bytes_in_another_process() -> None:
    script = (
        "from components.programs.bundle import bundle, bundle_digest\n"
        "from components.programs.hydrator import ENTRY, MODULES\n"
        "print(bundle_digest(bundle(ENTRY, list(reversed(MODULES)))))\n"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == bundle_digest(bundle(ENTRY, MODULES))


def test_it_holds_what_was_named_and_runs_without_the_packages_around_it(tmp_path: Path) -> None:
    data = bundle(ENTRY, MODULES)
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert names == sorted(names)
    assert "components/programs/hydrator/main.py" in names
    assert not any(name.startswith(("infra/", "components/cluster", "components/programs/bundle")) for name in names)
    assert zipfile.ZipFile(io.BytesIO(data)).read("components/__init__.py") == b"", "it would import pulumi"
    assert len(data) < CONFIG_MAP_LIMIT_BYTES / 3
    path = tmp_path / "hydrator.pyz"
    path.write_bytes(data)
    ran = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, env={}, check=False)
    assert (ran.returncode, ran.stderr) == (2, "")
    assert "DORMOUSE_TARGET" in ran.stdout


def test_what_cannot_be_bundled_is_named() -> None:
    with pytest.raises(BundleError, match="there is no module serving.nothing"):
        bundle("serving.errors:f", ["serving.nothing"])
    with pytest.raises(BundleError, match="serving.units is not among the modules"):
        bundle("serving.units:f", ["serving.errors"])
    with pytest.raises(BundleError, match=r"'serving.errors' is no entry; accepted: package.module:function"):
        bundle("serving.errors", ["serving.errors"])
    with pytest.raises(BundleError, match=r"has [\d,]+ bytes; accepted: 1,000. Largest: serving/errors.py"):
        bundle("serving.errors:f", ["serving.errors"], limit_bytes=1000)
