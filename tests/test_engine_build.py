"""The engine build's decisions: key, toolchain, messages, places. Nothing is compiled here."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import pytest

from engine.builder.cache import EngineCache, cache_root
from engine.builder.construct import failure_text
from engine.builder.errors import EngineBuildError
from engine.builder.progress import Progress, duration_text
from engine.builder.recipe import (
    ENGINE_FOLDER,
    TARGETS,
    cache_key,
    pinned_version,
    product_paths,
    required_go,
    stamp_flags,
    version_numbers,
)
from engine.builder.toolchain import (
    Go,
    InstalledPulumi,
    RefusedPulumi,
    checked_go,
    installed_pulumi,
    misfit,
)

BUILD = ENGINE_FOLDER / "build.py"


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    """A copy of the pins that a test may change."""
    folder = tmp_path / "engine"
    for source in ENGINE_FOLDER.glob("*/*"):
        if source.name in ("go.mod", "go.sum", "main.go"):
            target = folder / source.parent.name / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return folder


def _program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def _run_build(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BUILD), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class TestKey:
    def test_is_the_same_for_the_same_pins_wherever_they_stand(self, pins: Path) -> None:
        assert cache_key((1, 26), pins) == cache_key((1, 26))
        assert len(cache_key((1, 26))) == 16

    @pytest.mark.parametrize("name", ["pulumi/go.mod", "etcd/go.sum", "kubernetes-provider/main.go"])
    def test_changes_with_every_pinned_file(self, pins: Path, name: str) -> None:
        before = cache_key((1, 26), pins)
        with (pins / name).open("a") as file:
            file.write("\n// another pin\n")
        assert cache_key((1, 26), pins) != before

    def test_changes_with_go_and_with_a_new_folder_but_not_with_other_files(self, pins: Path) -> None:
        before = cache_key((1, 26), pins)
        (pins / "kwok" / "README.md").write_text("words")
        assert cache_key((1, 26), pins) == before
        assert cache_key((1, 27), pins) != before
        (pins / "another").mkdir()
        (pins / "another" / "go.mod").write_text("module another\n\ngo 1.26\n")
        assert cache_key((1, 26), pins) != before


class TestPins:
    def test_the_version_of_every_target_is_pinned(self) -> None:
        assert pinned_version("kubernetes", "k8s.io/kubernetes").startswith("v1.36.")
        assert pinned_version("etcd", "go.etcd.io/etcd/server/v3").startswith("v3.")
        assert version_numbers(pinned_version("pulumi", "github.com/pulumi/pulumi/pkg/v3"))[0] == 3

    def test_an_absent_pin_names_file_and_module(self, pins: Path) -> None:
        with pytest.raises(EngineBuildError, match=r"etcd/go\.mod pins no version of example\.org/nothing"):
            pinned_version("etcd", "example.org/nothing", pins)
        (pins / "etcd" / "go.mod").unlink()
        with pytest.raises(EngineBuildError, match=r"etcd/go\.mod is missing"):
            pinned_version("etcd", "go.etcd.io/etcd/server/v3", pins)

    def test_a_folder_without_pins_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EngineBuildError, match="restore the folder"):
            cache_key((1, 26), tmp_path)

    def test_the_go_asked_for_is_the_newest_that_any_pin_asks_for(self, pins: Path) -> None:
        (pins / "kwok" / "go.mod").write_text("module kwok\n\ngo 1.31.2\n")
        assert required_go(pins) == (1, 31, 2)

    def test_the_api_server_reports_the_pinned_version(self) -> None:
        target = next(target for target in TARGETS if target.name == "kube-apiserver")
        version = pinned_version("kubernetes", "k8s.io/kubernetes")
        assert f"-X k8s.io/component-base/version.gitVersion={version}" in stamp_flags(target)
        assert "version.gitMajor=1 " in stamp_flags(target)

    def test_the_kubernetes_provider_is_built_for_the_installed_python_sdk(self) -> None:
        lock = (ENGINE_FOLDER.parent / "requirements.lock").read_text()
        source = (ENGINE_FOLDER / "kubernetes-provider" / "main.go").read_text()
        version = source.split('providerVersion = "')[1].split('"')[0]
        assert f"pulumi-kubernetes=={version}" in lock

    @pytest.mark.parametrize(
        ("text", "numbers"),
        [("v3.276.0", (3, 276, 0)), ("go1.26.8", (1, 26, 8)), ("v3.276.0-dev.1", (3, 276, 0)), ("devel +abc", ())],
    )
    def test_versions_are_read(self, text: str, numbers: tuple[int, ...]) -> None:
        assert version_numbers(text) == numbers


class TestGo:
    def test_missing_go_says_which_version_and_what_works_without(self) -> None:
        with pytest.raises(EngineBuildError) as refused:
            checked_go(None)
        wanted = ".".join(map(str, required_go()))
        assert "Go is not installed" in str(refused.value)
        assert f"needs Go {wanted} or newer" in str(refused.value)
        assert "`make try` and `make test` do not need it" in str(refused.value)

    def test_old_go_is_named(self) -> None:
        with pytest.raises(EngineBuildError, match=r"Go 1\.22\.3 \(/usr/bin/go\) is too old"):
            checked_go(Go("/usr/bin/go", (1, 22, 3)))

    def test_the_wanted_go_and_newer_are_taken(self) -> None:
        assert checked_go(Go("go", required_go())).version == required_go()
        assert checked_go(Go("go", (2, 0))).version == (2, 0)


class TestInstalledPulumi:
    @pytest.mark.parametrize("version", ["v3.276.0", "v3.276.4", "v3.300.0", "3.277.1"])
    def test_fits(self, version: str) -> None:
        assert misfit(version, "v3.276.0") == ""

    @pytest.mark.parametrize("version", ["v3.275.9", "v2.300.0", "v4.0.0"])
    def test_does_not_fit(self, version: str) -> None:
        assert misfit(version, "v3.276.0") == f"its version is {version}; accepted: 3.276 or newer, below 4"

    def test_an_unreadable_version_does_not_fit(self) -> None:
        assert "its version reads ''" in misfit("", "v3.276.0")

    def _install(self, folder: Path, version: str, *, host: bool = True) -> None:
        _program(folder / "pulumi", f"echo {version}")
        names = ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")
        for name in names if host else ():
            _program(folder / name, "exit 0")

    def test_is_taken_from_path_with_its_language_host(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._install(tmp_path / "real", "v3.900.0")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "pulumi").symlink_to(tmp_path / "real" / "pulumi")
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        found = installed_pulumi(tmp_path / "cache")
        assert isinstance(found, InstalledPulumi)
        assert found.version == "v3.900.0"
        assert found.files["pulumi-language-python-exec"] == tmp_path / "real" / "pulumi-language-python-exec"

    def test_without_its_language_host_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._install(tmp_path, "v3.900.0", host=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        found = installed_pulumi(tmp_path / "cache")
        assert isinstance(found, RefusedPulumi)
        assert found.reason == "`pulumi-language-python` is neither beside it nor on PATH"

    def test_too_old_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._install(tmp_path, "v3.1.0")
        monkeypatch.setenv("PATH", str(tmp_path))
        found = installed_pulumi(tmp_path / "cache")
        assert isinstance(found, RefusedPulumi)
        assert "its version is v3.1.0" in found.reason

    def test_our_own_build_on_path_does_not_count(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._install(tmp_path / "cache" / "key" / "bin", "v3.900.0")
        monkeypatch.setenv("PATH", str(tmp_path / "cache" / "key" / "bin"))
        assert installed_pulumi(tmp_path / "cache") is None


class TestCache:
    def test_stands_in_the_users_cache_folder_unless_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DORMOUSE_ENGINE_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_root() == tmp_path / "dormouse" / "engine"
        monkeypatch.setenv("DORMOUSE_ENGINE_CACHE", str(tmp_path / "ci"))
        assert cache_root() == tmp_path / "ci"

    def test_is_complete_when_every_product_is_there(self, tmp_path: Path) -> None:
        cache = EngineCache(tmp_path, "key")
        assert cache.missing() == list(product_paths())
        for product in product_paths():
            scratch = cache.scratch(product)
            scratch.write_text("built")
            cache.install(scratch, product)
        assert cache.missing() == []
        (cache.bin / "pulumi").unlink()
        (cache.bin / "pulumi").symlink_to(tmp_path / "removed")
        assert cache.missing() == ["bin/pulumi"]

    def test_a_second_builder_waits_and_is_told_for_whom(self, tmp_path: Path) -> None:
        cache = EngineCache(tmp_path, "key")
        told: list[str] = []
        order: list[str] = []

        def second() -> None:
            with cache.locked(told.append):
                order.append("second")

        with cache.locked(told.append):
            thread = threading.Thread(target=second)
            thread.start()
            deadline_s = time.monotonic() + 10
            while not told and time.monotonic() < deadline_s:
                time.sleep(0.02)
            order.append("first")
        thread.join(10)
        assert told == [str(os.getpid())]
        assert order == ["first", "second"]


class TestCommand:
    def test_print_path_builds_nothing_and_says_what_is_missing(self, tmp_path: Path) -> None:
        answer = _run_build("--print-path", DORMOUSE_ENGINE_CACHE=str(tmp_path))
        assert answer.returncode == 1
        folder = Path(answer.stdout.strip())
        assert folder.parent.parent == tmp_path
        assert folder.name == "bin"
        assert "missing: etcd, kwok" in answer.stderr
        assert "python3 engine/build.py" in answer.stderr
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("go", ["", "echo go1.20.1"], ids=["none", "old"])
    def test_a_build_from_elsewhere_is_found_without_a_fitting_go(self, tmp_path: Path, go: str) -> None:
        cache = EngineCache(tmp_path / "cache", cache_key(required_go()[:2]))
        for product in product_paths():
            (cache.folder / product).parent.mkdir(parents=True, exist_ok=True)
            (cache.folder / product).write_text("built elsewhere")
        if go:
            _program(tmp_path / "bin" / "go", go)
        answer = _run_build("--print-path", DORMOUSE_ENGINE_CACHE=str(cache.root), PATH=str(tmp_path / "bin"))
        assert (answer.returncode, answer.stdout.strip()) == (0, str(cache.bin))

    def test_json_names_places_and_what_is_missing(self, tmp_path: Path) -> None:
        answer = _run_build("--print-path", "--json", DORMOUSE_ENGINE_CACHE=str(tmp_path))
        facts = json.loads(answer.stdout)
        assert answer.returncode == 1
        assert facts["complete"] is False
        assert facts["missing"] == list(product_paths())
        assert facts["share"] == str(tmp_path / facts["key"] / "share")
        assert facts["pulumi"] == "missing"

    def test_without_go_one_paragraph_and_exit_code_1(self, tmp_path: Path) -> None:
        answer = _run_build(DORMOUSE_ENGINE_CACHE=str(tmp_path), PATH=str(tmp_path / "empty"))
        assert answer.returncode == 1
        assert "engine/build.py: Go is not installed" in answer.stderr
        assert "Traceback" not in answer.stderr

    def test_an_old_go_is_refused_before_anything_is_compiled(self, tmp_path: Path) -> None:
        _program(tmp_path / "old" / "go", "echo go1.20.1")
        answer = _run_build(DORMOUSE_ENGINE_CACHE=str(tmp_path / "cache"), PATH=str(tmp_path / "old"))
        assert answer.returncode == 1
        assert "Go 1.20.1 (" in answer.stderr
        assert "is too old" in answer.stderr

    def test_a_failing_go_ends_the_build_with_its_words(self, tmp_path: Path) -> None:
        wanted = ".".join(map(str, required_go()))
        body = f'if [ "$1" = env ]; then echo go{wanted}; else echo "dial tcp: no route" >&2; exit 3; fi'
        _program(tmp_path / "bin" / "go", body)
        answer = _run_build(DORMOUSE_ENGINE_CACHE=str(tmp_path / "cache"), PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
        assert answer.returncode == 1
        assert "etcd could not be built (`go` ended with 3):\n  dial tcp: no route" in answer.stderr
        assert "check the network and GOPROXY" in answer.stderr
        assert f"[1/{len(product_paths())}] etcd: started" in answer.stderr

    def test_a_wrong_option_is_wrong_usage(self) -> None:
        assert _run_build("--everything").returncode == 2


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "text"), [(0.4, "0 s"), (41.9, "41 s"), (161, "2 min 41 s"), (3725, "1 h 02 min")]
    )
    def test_durations(self, seconds: float, text: str) -> None:
        assert duration_text(seconds) == text

    def test_a_pipe_gets_one_line_at_each_end(self) -> None:
        stream = StringIO()
        with Progress(stream, live=False).step("3/8", "kwok") as tick:
            tick()
            tick()
        assert stream.getvalue() == "[3/8] kwok: started\n[3/8] kwok: done in 0 s\n"

    def test_a_terminal_gets_one_line_that_moves(self) -> None:
        stream = StringIO()
        with Progress(stream, live=True).step("3/8", "kwok") as tick:
            tick()
        shown = stream.getvalue()
        assert shown.count("\r\x1b[K[3/8] kwok  0 s") == 2
        assert shown.endswith("\r\x1b[K[3/8] kwok: done in 0 s\n")

    def test_a_stopped_step_says_so(self) -> None:
        stream = StringIO()
        with pytest.raises(KeyboardInterrupt), Progress(stream, live=False).step("1/8", "etcd"):
            raise KeyboardInterrupt
        assert "etcd: stopped after 0 s" in stream.getvalue()

    def test_a_full_disk_has_its_own_remedy(self) -> None:
        text = failure_text("pulumi", 1, "write /tmp/x: no space left on device")
        assert "`go clean -cache` frees Go's build cache" in text
