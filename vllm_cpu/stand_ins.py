"""Stand-ins for the NVIDIA libraries that PyPI's torch names as needed and a CPU never calls.

The only torch on PyPI for Linux is the CUDA build; its libraries do not load without 1.8 GB of NVIDIA's. Each stand-in has
the library's name and symbol versions, and every function that torch takes from it returns 1, an error in all these
interfaces. The real CUDA runtime is installed and says that there is no GPU, so none of them is ever called. Tests only: on
a machine with a GPU install torch with its dependencies.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

# These libraries have no symbol versions; their functions are known by how they begin.
_PREFIXES = {"libnccl.so": "nccl", "libcufile.so": "cuFile", "libcusparseLt.so": "cusparseLt"}
# Opened only when a GPU compiles a kernel.
_UNUSED = "libcaffe2_nvrtc.so"
VERSION = "0.32.0"


@dataclass
class _Needs:
    """What torch's libraries take from others: libraries, functions by library and symbol version, and the rest."""

    libraries: set[str] = field(default_factory=set[str])
    versioned: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    plain: set[str] = field(default_factory=set[str])


def make_stand_ins(site_packages: Path) -> list[str]:
    """Build what is missing into torch's own library folder, the last place where it looks; give their names.

    Needs gcc, readelf and nm; raises FileNotFoundError or CalledProcessError where one is missing or fails.
    """
    folder = site_packages / "torch" / "lib"
    present = {file.name for file in [*site_packages.glob("nvidia/*/lib/*.so*"), *folder.glob("*.so*")]}
    needs = _Needs()
    for file in sorted(folder.glob("lib*.so")):
        if file.name != _UNUSED:
            _read_needs(file, needs)
    missing = sorted(needs.libraries - present)
    for name in missing:
        _build(folder / name, needs)
    return missing


def name_distribution(site_packages: Path) -> None:
    """`vllm` asks for a distribution of its own name, and takes the platform for CPU where its version says so."""
    folder = site_packages / f"vllm-{VERSION}+cpu.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (folder / "INSTALLER").write_text("vllm_cpu/build.py\n")
    (folder / "RECORD").write_text("")


def _read_needs(file: Path, needs: _Needs) -> None:
    needs.libraries |= set(re.findall(r"\(NEEDED\).*\[(lib(?:cu|nv|nccl)[^\]]*)\]", _output("readelf", "-dW", file)))
    owner: dict[str, str] = {}
    library = ""
    for line in _output("readelf", "-VW", file).splitlines():
        if (found := re.search(r"File: (\S+)", line)) is not None:
            library = found[1]
        elif library and (found := re.search(r"Name: (\S+) +Flags", line)) is not None:
            owner[found[1]] = library
    for line in _output("nm", "-D", "--undefined-only", "--with-symbol-versions", file).splitlines():
        function, _, version = line.split()[-1].partition("@")
        version = version.lstrip("@")
        if version in owner:
            needs.versioned.setdefault(owner[version], {}).setdefault(version, set()).add(function)
        elif not version:
            needs.plain.add(function)


def _build(target: Path, needs: _Needs) -> None:
    versions = needs.versioned.get(target.name, {})
    prefix = _PREFIXES.get(target.name[: target.name.index(".so") + 3])
    functions = {name for name in needs.plain if prefix and name.startswith(prefix)}.union(*versions.values())
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder) / "stand_in.c", Path(folder) / "versions.map"
        body = "".join(f"int {name}(void){{return 1;}}\n" for name in sorted(functions))
        source.write_text(body or "int nothing_is_taken_from_here;\n")
        script.write_text(
            "".join(f"{name} {{ global: {'; '.join(sorted(own))}; }};\n" for name, own in versions.items())
        )
        command = ["gcc", "-shared", "-fPIC", "-s", "-w", f"-Wl,-soname,{target.name}", "-o", str(target), str(source)]
        subprocess.run([*command, *([f"-Wl,--version-script={script}"] if versions else [])], check=True)


def _output(*command: str | Path) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
