#!/bin/sh
# {headline}
# Looks whether this machine can serve it; changes nothing. Ends with 1 where something would stop it.
set -u
WANT_GPUS={gpus} WANT_GPU_MIB={gpu_mib} WANT_DRIVER={driver} WANT_CUDA={cuda}
WANT_MEMORY_KIB={memory_kib} WANT_SHARED_KIB={shared_kib} WANT_DISK_KIB={disk_kib}
WEIGHTS={weights} WEIGHTS_ROOT={weights_root} PORTS="{ports}"
PROC=${{PROC:-/proc}} SHARED_MEMORY=${{SHARED_MEMORY:-/dev/shm}}
failed=0 unknown=0

ok() {{ printf 'ok       %-12s %s\n' "$1" "$2"; }}
fail() {{ printf 'STOPS    %-12s %s\n         -> %s\n' "$1" "$2" "$3"; failed=$((failed + 1)); }}
warn() {{ printf 'warning  %-12s %s\n         -> %s\n' "$1" "$2" "$3"; }}
unsure() {{ printf 'unknown  %-12s %s\n' "$1" "$2"; unknown=$((unknown + 1)); }}
# at_least 580.95 580: the first version is not older than the second.
at_least() {{ [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }}
ask() {{ nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null; }}

look_at_driver() {{
    if ! command -v nvidia-smi >/dev/null; then
        fail driver "nvidia-smi is not there" "install NVIDIA's driver $WANT_DRIVER or newer (data-centre branch), then restart"
        return 1
    fi
    if ! said=$(nvidia-smi 2>&1); then
        fail driver "nvidia-smi: $(printf '%s' "$said" | tail -n 1)" "restart after an update of the driver; see dmesg for NVRM and Xid lines"
        return 1
    fi
    version=$(ask driver_version | head -n 1)
    if at_least "$version" "$WANT_DRIVER"; then
        ok driver "$version"
    else
        fail driver "$version; vLLM's CUDA $WANT_CUDA needs $WANT_DRIVER or newer" "install driver $WANT_DRIVER or newer, then restart"
    fi
    cuda=$(printf '%s\n' "$said" | sed -n 's/.*CUDA.* Version: *\([0-9.]*\).*/\1/p' | head -n 1)
    if [ -z "$cuda" ]; then
        unsure cuda "nvidia-smi names no CUDA version"
    elif at_least "$cuda" "$WANT_CUDA"; then
        ok cuda "up to $cuda"
    else
        fail cuda "the driver supports CUDA up to $cuda, vLLM is built for $WANT_CUDA" "install driver $WANT_DRIVER or newer"
    fi
}}

look_at_gpus() {{
    count=$(ask memory.total | grep -c .)
    least=$(ask memory.total | sort -n | head -n 1)
    if [ "$count" -lt "$WANT_GPUS" ]; then
        fail gpus "$count GPUs are seen, $WANT_GPUS are planned" "look in dmesg for Xid 79 (fallen off the bus); power-cycle or replace the machine"
    elif [ "$least" -lt "$WANT_GPU_MIB" ]; then
        fail gpus "a GPU has $least MiB, $WANT_GPU_MIB MiB are planned" "plan for this machine: dormouse emit --instance-type with its own GPUs"
    else
        ok gpus "$count with $least MiB or more"
    fi
    if ask mig.mode.current | grep -q Enabled; then
        fail mig "a GPU is divided (MIG)" "nvidia-smi -mig 0, then nvidia-smi --gpu-reset"
    else
        ok mig "no GPU is divided"
    fi
    if ask persistence_mode | grep -q Disabled; then
        warn persistence "persistence mode is off: the driver unloads between processes and every start is slower" "systemctl enable --now nvidia-persistenced"
    else
        ok persistence "on"
    fi
    used=$(ask memory.used | sort -n | tail -n 1)
    if [ "${{used:-0}}" -gt 1024 ]; then
        fail free "a GPU already has $used MiB in use" "nvidia-smi shows which process holds it; end that one"
    else
        ok free "no GPU is in use"
    fi
    broken=$(ask ecc.errors.uncorrected.volatile.total | grep -vc '^0$\|N/A')
    if [ "$broken" -gt 0 ]; then
        fail memory-ecc "$broken GPUs report uncorrected memory errors" "nvidia-smi -q -d ECC,ROW_REMAPPER; reset the GPU, and replace it where they return"
    else
        ok memory-ecc "no uncorrected errors"
    fi
    if ask clocks_event_reasons.hw_thermal_slowdown | grep -q '^Active'; then
        fail cooling "a GPU is slowed down by heat" "nvidia-smi -q -d PERFORMANCE,TEMPERATURE; look at fans and air flow"
    else
        ok cooling "no thermal slowdown"
    fi
}}

look_at_fabric() {{
    [ "$WANT_GPUS" -gt 1 ] || return 0
    states=$(nvidia-smi -q 2>/dev/null | awk '/^ *Fabric$/ {{inside = 1}} inside && /State/ {{print $3; inside = 0}}')
    if [ -z "$states" ]; then
        unsure fabric "nvidia-smi -q has no section Fabric"
    elif ! printf '%s\n' "$states" | grep -q '[A-Z][a-z]'; then
        ok fabric "no NVSwitch that needs a fabric manager"
    elif printf '%s\n' "$states" | grep -qv '^Completed$'; then
        fail fabric "the NVSwitch fabric is not up; CUDA answers 802, system not yet initialized" "systemctl enable --now nvidia-fabricmanager, in the driver's own version; then nvidia-smi -q | grep -A3 Fabric says Completed"
    else
        ok fabric "completed on every GPU"
    fi
    # One line for each pair of GPUs that is joined by something else than NVLink.
    slow=$(nvidia-smi topo -m 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' | awk '
        !head && /GPU0/ {{for (i = 1; i <= NF; i++) if ($i ~ /^GPU[0-9]+$/) n++; head = 1; next}}
        head && $1 ~ /^GPU[0-9]+$/ {{seen++; for (i = 2; i <= n + 1; i++) if ($i != "X" && $i !~ /^NV[0-9]+$/) print $1 "-GPU" (i - 2) " " $i}}
        END {{if (!seen) print "unreadable"}}')
    case $slow in
        '') ok topology "every pair of GPUs is joined by NVLink" ;;
        unreadable) unsure topology "nvidia-smi topo -m cannot be read" ;;
        *) fail topology "not NVLink: $(printf '%s' "$slow" | head -n 3 | tr '\n' ',')" "tensor parallel over PCIe is several times slower: start the fabric manager, or take a machine whose GPUs are joined (nvidia-smi topo -m says NV#)" ;;
    esac
}}

look_at_host() {{
    memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' "$PROC/meminfo")
    if [ "${{memory:-0}}" -ge "$WANT_MEMORY_KIB" ]; then
        ok memory "$((memory / 1048576)) GiB"
    else
        fail memory "$((${{memory:-0}} / 1048576)) GiB; the plan takes $((WANT_MEMORY_KIB / 1048576)) GiB" "a machine with more memory, or dormouse emit --memory-gib with what it has"
    fi
    shared=$(df -Pk "$SHARED_MEMORY" 2>/dev/null | awk 'NR == 2 {{print $2}}')
    if [ "${{shared:-0}}" -ge "$WANT_SHARED_KIB" ]; then
        ok shared-memory "$((shared / 1048576)) GiB"
    else
        fail shared-memory "$SHARED_MEMORY has $((${{shared:-0}} / 1048576)) GiB, the GPUs' processes exchange up to $((WANT_SHARED_KIB / 1048576)) GiB there" "mount -o remount,size=$((WANT_SHARED_KIB / 1048576))G $SHARED_MEMORY (a container: --shm-size)"
    fi
    if [ -f "$WEIGHTS/.dormouse/verified.json" ]; then
        ok weights "$WEIGHTS is proven"
    else
        free=$(df -Pk "$WEIGHTS_ROOT" 2>/dev/null | awk 'NR == 2 {{print $4}}')
        if [ -z "$free" ]; then
            fail disk "$WEIGHTS_ROOT is not there" "mount the disk for the weights there ($((WANT_DISK_KIB / 1048576)) GiB)"
        elif [ "$free" -lt "$WANT_DISK_KIB" ]; then
            fail disk "$((free / 1048576)) GiB are free below $WEIGHTS_ROOT, the weights need $((WANT_DISK_KIB / 1048576)) GiB" "a larger disk, or what lies there moved away"
        else
            ok disk "$((free / 1048576)) GiB free below $WEIGHTS_ROOT"
        fi
        warn weights "$WEIGHTS is not proven yet" "fill-weights.sh downloads and proves it; vLLM does not start before"
    fi
    for port in $PORTS; do
        hex=$(printf '%04X' "$port")
        if cat "$PROC/net/tcp" "$PROC/net/tcp6" 2>/dev/null | awk '{{print $2, $4}}' | grep -q ":$hex 0A"; then
            fail "port-$port" "something listens on it already" "ss -ltnp 'sport = :$port' names the process"
        else
            ok "port-$port" "free"
        fi
    done
}}

look_at_sysctls() {{
{sysctls}
}}

setting() {{
    value=$(cat "$PROC/sys/$(printf '%s' "$1" | tr . /)" 2>/dev/null)
    if [ -z "$value" ]; then
        unsure "$1" "cannot be read"
    elif test "$value" "$2" "$3"; then
        ok "$1" "$value"
    else
        warn "$1" "$value; $4" "sysctl -w $1=$3 (and a file below /etc/sysctl.d)"
    fi
}}

look_at_driver && look_at_gpus && look_at_fabric
look_at_host
look_at_sysctls
echo
if [ "$failed" -gt 0 ]; then
    echo "$failed would stop it, $unknown unknown"
    exit 1
fi
echo "nothing stops it, $unknown unknown"
