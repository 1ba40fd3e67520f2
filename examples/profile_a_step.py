"""The tables of GPU times in one screen: command buffers by label, and each dispatch of a step."""

import numpy as np

from mlx_native_py import MlxDevice, kernel_profile, ops, profile, region, settings


def main() -> None:
    device = MlxDevice()
    x = device.buffer(np.ones((8, 256), np.float32), label="x")
    w = device.buffer(np.ones((256, 256), np.float32), label="w")
    scale = device.buffer(np.ones(256, np.float32), label="scale")

    def step() -> None:
        with device.command_encoder() as enc:
            for layer in range(2):
                with region(f"layer {layer}"):
                    y = ops.matmul(enc, ops.rms_norm(enc, x, scale, eps=1e-5), w)
                    ops.add(enc, x, y)
            enc.commit_and_wait(label="layer.step")

    step()  # compiles what is not compiled yet
    kernel_profile.reset()
    with settings.override(profile_cb=True), profile("dispatch") as p:
        for _ in range(3):
            step()

    print(f"{'label':12} {'count':>5} {'total us':>10} {'min us':>9} {'max us':>9}")
    for label, entry in kernel_profile.dump():
        times = (entry.total_ns, entry.min_ns, entry.max_ns)
        print(f"{label:12} {entry.count:5} {times[0] / 1e3:10.1f} {times[1] / 1e3:9.1f} {times[2] / 1e3:9.1f}")
    print(f"\n{'dispatch':>8} {'kernel':24} {'kind':10} {'GPU us':>8}  how")
    for _, dispatches in kernel_profile.dump_dispatches():
        for each in dispatches[:6]:
            what = f"{each.dispatch_index:8} {each.kernel:24} {each.op_kind:10}"
            print(f"{what} {each.gpu_ns / 1e3:8.1f}  {each.provenance}")
    print(f"\n{p.table('op')}")


if __name__ == "__main__":
    main()
