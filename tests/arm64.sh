#!/usr/bin/env bash
# The software device on ARM64 Linux, emulated: the conformance suite on each engine, then faults, endless loops and the
# padding of structs on all of them. Isolated devices cannot be tried so: the emulator of programs has no seccomp,
# without which no helper starts; tests/arm64_vm.sh boots a kernel for them.
# Needs root, qemu-user-static and mmdebstrap of Debian, and a python3 with pip and ziglang (or PYTHON names one).
#   tests/arm64.sh [FOLDER [PYTEST ARGUMENT ...]]    FOLDER keeps the root file system and the cache of kernels
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-.arm64}")
shift || true
root=$folder/root site=$folder/root/opt/site
python=${PYTHON:-python3}
engines=${ENGINES:-fibers lanes flat}
conformance=(tests/soft/test_conformance_*.py tests/soft/test_divergence.py)
# Each in a process of its own: faults and endless loops in one were seen to end the emulator by SIGTRAP.
alone=(tests/soft/test_engines_faults.py tests/soft/test_endless.py "tests/soft/test_engines_agree.py -k padding")

make_root() {
  mkdir -p "$folder"
  mmdebstrap --architectures=arm64 --variant=extract --include=python3,libc6,libstdc++6,libgcc-s1 \
    --skip=check/qemu bookworm "$root"
  "$python" -m pip install --quiet --target "$site" --only-binary=:all: --python-version 311 --implementation cp \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 \
    numpy ml_dtypes pytest hypothesis ziglang
  host_compiler > "$folder/zig"
  chmod +x "$folder/zig"
  mv "$folder/zig" "$site/ziglang/zig"
}

# The compiler runs as the host's own: many times faster, and its output is the same but for the "native" processor.
host_compiler() {
  local zig
  zig=$("$python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
  cat << END
#!/bin/bash
exec "$zig" "\${@/#-mcpu=native/-mcpu=cortex-a76}"
END
}

# What tests start as sys.executable. -R: without it the emulator keeps track of reserved addresses page by page, and
# takes all memory.
emulated_python() {
  cat << END
#!/bin/bash
export PYTHONHOME="$root/usr" PYTHONPATH="$PWD:$site"
exec qemu-aarch64-static -0 "$folder/python" -R 0x2000000000 -L "$root" "$root/usr/bin/python3.11" "\$@"
END
}

run() {
  local engine=$1
  shift
  ( ulimit -d 4000000
    MLX_NATIVE_DEVICE=soft MLX_SOFT_ENGINE=$engine MLX_SOFT_CACHE_DIR=$folder/cache MLX_SOFT_TIMEOUT=120 \
      nice -n 19 "$folder/python" -m pytest -q -rf --tb=short -p no:cacheprovider -o faulthandler_timeout=0 "$@" )
}

[ -e "$site/ziglang/zig" ] || make_root
mkdir -p -m 700 "$folder/cache"
emulated_python > "$folder/python"
chmod +x "$folder/python"
failed=0
[ $# -gt 0 ] || set -- "${conformance[@]}"
for engine in $engines; do
  echo "== $engine: $*"
  run "$engine" "$@" || failed=1
done
for each in "${alone[@]}"; do
  echo "== $each"
  # shellcheck disable=SC2086
  run auto $each || failed=1
done
exit $failed
