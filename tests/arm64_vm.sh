#!/usr/bin/env bash
# Isolated devices on ARM64 Linux: a whole machine is emulated, since an emulator of programs has no seccomp.
# Needs the FOLDER that tests/arm64.sh made, root, qemu-system-aarch64 and cpio of Debian, and `dpkg --add-architecture
# arm64`. The machine sees this folder and FOLDER under the paths that they have here.
#   tests/arm64_vm.sh [FOLDER [PYTEST ARGUMENT ...]]
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-.arm64}")
shift || true
[ $# -gt 0 ] || set -- tests/soft/test_isolation.py
repo=$PWD root=$folder/root vm=$folder/vm
python=${PYTHON:-python3}
modules=(drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci_modern_dev drivers/virtio/virtio_pci
  net/9p/9pnet net/9p/9pnet_virtio fs/netfs/netfs fs/fscache/fscache fs/9p/9p)

get_kernel() {
  mkdir -p "$vm/packages"
  cd "$vm/packages"
  apt-get download linux-image-arm64:arm64 busybox-static:arm64
  apt-get download "$(dpkg-deb -f linux-image-arm64_*.deb Depends | grep -o 'linux-image-[-.0-9]*-arm64'):arm64"
  for each in *.deb; do dpkg-deb -x "$each" "$vm/system"; done
  cd "$repo"
}

# The first program of the machine: mounts both folders and starts the tests inside the root file system.
first_program() {
  cat << END
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for each in $(basename -a "${modules[@]}" | tr '\n' ' '); do insmod /modules/\$each.ko; done
share() { mkdir -p \$2; mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=mmap \$1 \$2; }
share folder "$folder"
mkdir -p /dev/shm "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/bin"
mount -t tmpfs shm /dev/shm
for each in proc sys dev; do mount --bind /\$each "$root/\$each"; done
mount -t tmpfs tmp "$root/tmp"
share repo "$root$repo"
mkdir -p "$root$folder"; mount --bind "$folder" "$root$folder"
cp /bin/busybox "$root/tmp/"; chroot "$root" /tmp/busybox --install -s /tmp
mount --bind "$vm/zig" "$root/opt/site/ziglang/zig"
chroot "$root" /tmp/sh "$vm/tests"
poweroff -f
END
}

run_tests() {
  cat << END
export PATH=/tmp:/usr/bin HOME=/tmp TMPDIR="$vm" PYTHONPATH="$repo:/opt/site" PYTHONDONTWRITEBYTECODE=1
export MLX_NATIVE_DEVICE=soft MLX_SOFT_CACHE_DIR="$vm/cache" MLX_SOFT_TIMEOUT=120 MLX_SOFT_CPU=cortex-a76
cd "$repo"
python3.11 -m pytest -q -rf --tb=short -p no:cacheprovider -o faulthandler_timeout=0 $*
echo \$? > "$vm/status"
END
}

# The compiler is the host's, which answers requests: what it is to read and write lies under the same paths.
ask_host() {
  cat << END
#!/tmp/sh
id=$vm/requests/\$\$.\$(tr -d ' .' < /proc/uptime)
case " \$* " in *" - "*) cat > \$id.in;; *) : > \$id.in;; esac
{ printf '%s\0' "\$PWD"; for each in "\$@"; do printf '%s\0' "\$each"; done; } > \$id.new
mv \$id.new \$id.request
while [ ! -e \$id.status ]; do usleep 50000; done
cat \$id.out; cat \$id.err >&2
status=\$(cat \$id.status); rm -f \$id.*; exit \$status
END
}

answer() {
  local id=${1%.taken} words
  mapfile -d '' -t words < "$1"
  words=("${words[@]//\/opt\/site\//$root/opt/site/}")
  "$zig" "${words[@]:1}" < "$id.in" > "$id.out" 2> "$id.err" && echo 0 > "$id.code" || echo $? > "$id.code"
  mv "$id.code" "$id.status"
}

serve() {
  shopt -s nullglob
  while sleep 0.05; do
    for each in "$vm"/requests/*.request; do
      mv "$each" "${each%request}taken"
      answer "${each%request}taken" &
    done
  done
}

[ -e "$vm/system/bin/busybox" ] || get_kernel
rm -rf "$vm/first" "$vm/requests" "$vm/status"
mkdir -p "$vm"/first/{bin,proc,sys,dev,modules} "$vm/requests" "$vm/cache"
chmod 700 "$vm/cache"
cp "$vm/system/bin/busybox" "$vm/first/bin/"
for each in "${modules[@]}"; do cp "$vm"/system/lib/modules/*/kernel/"$each".ko "$vm/first/modules/"; done
first_program > "$vm/first/init"
run_tests "$@" > "$vm/tests"
ask_host > "$vm/zig"
chmod +x "$vm/first/init" "$vm/zig"
(cd "$vm/first" && find . | cpio --quiet -o -H newc | gzip -1) > "$vm/first.gz"
zig=$("$python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
serve &
trap 'kill %1' EXIT
nice -n 10 qemu-system-aarch64 -M virt -cpu cortex-a76 -smp 2 -m 3G -nographic -no-reboot \
  -kernel "$vm"/system/boot/vmlinuz-* -initrd "$vm/first.gz" -append "console=ttyAMA0 quiet" \
  -virtfs "local,path=$repo,mount_tag=repo,security_model=none,multidevs=remap" \
  -virtfs "local,path=$folder,mount_tag=folder,security_model=none,multidevs=remap" < /dev/null
exit "$(cat "$vm/status" || echo 1)"
