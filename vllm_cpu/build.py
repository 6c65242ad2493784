#!/usr/bin/env python3
"""Install a real vLLM for CPU, once for each state of its lock: `python vllm_cpu/build.py [--print-path]`.

Runs in the project's virtual environment, whose uv it uses. About four minutes and 3 GB from nothing.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    # A script's import root is its own folder; the package stands one above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from vllm_cpu.place import LOCK, environment_path, is_built
from vllm_cpu.stand_ins import VERSION, make_stand_ins, name_distribution

_TOOLS = ("gcc", "readelf", "nm")


def main() -> int:
    """Build what is missing, or only say where it stands. Exit codes: 0 complete, 1 not."""
    parser = argparse.ArgumentParser(prog="vllm_cpu/build.py", description="Install a real vLLM for CPU for the tests.")
    parser.add_argument("--print-path", action="store_true", help="print the environment's folder and build nothing")
    options = parser.parse_args()
    environment = environment_path()
    if options.print_path:
        print(environment)
        return 0 if is_built(environment) else 1
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"vllm_cpu/build.py: {', '.join(missing)} not found; install gcc and binutils", file=sys.stderr)
        return 1
    if sys.version_info[:2] != (3, 11):
        print(f"vllm_cpu/build.py: the lock is for Python 3.11, this is {sys.version.split()[0]}", file=sys.stderr)
        return 1
    environment.parent.mkdir(parents=True, exist_ok=True)
    with (environment.parent / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_built(environment):
            try:
                _build(environment)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"vllm_cpu/build.py: {error}; run it again, nothing half done is used", file=sys.stderr)
                return 1
    print(f"vLLM {VERSION} for CPU is complete: {environment}")
    return 0


def _build(environment: Path) -> None:
    free_gb = shutil.disk_usage(environment.parent).free / 1e9
    print(
        f"Installing vLLM {VERSION} for CPU into {environment}: about four minutes, 1 GB to fetch, 3 GB there "
        f"({free_gb:.0f} GB are free)",
        file=sys.stderr,
    )
    began_s = time.monotonic()
    shutil.rmtree(environment, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    variables = {**os.environ, "UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never"}
    variables.pop("VIRTUAL_ENV", None)

    def run(*words: str) -> None:
        subprocess.run([str(uv), *words], check=True, env=variables)

    base = getattr(sys, "_base_executable", None) or sys.executable
    run("venv", "--quiet", "--python", base, str(environment))
    python = environment / "bin" / "python"
    run("pip", "install", "--quiet", "--python", str(python), "--no-deps", "--require-hashes", "-r", str(LOCK))
    site_packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    name_distribution(site_packages)
    made = make_stand_ins(site_packages)
    check = "import torch; assert not torch.cuda.is_available(); import vllm; print(torch.__version__)"
    subprocess.run(
        [str(python), "-c", check], check=True, stdout=subprocess.DEVNULL, env={**variables, "OMP_NUM_THREADS": "1"}
    )
    (environment / ".complete").write_text("")
    print(f"done in {time.monotonic() - began_s:.0f} s, with {len(made)} stand-ins", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
