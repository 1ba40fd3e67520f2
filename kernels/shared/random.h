// Random numbers by counter: Philox-4x32 with ten rounds.
#include <metal_stdlib>
using namespace metal;

inline uint4 philox(uint4 counter, uint2 key) {
  for (uint round = 0; round < 10; ++round) {
    uint high0 = mulhi(counter.x, 0xD2511F53u), low0 = counter.x * 0xD2511F53u;
    uint high1 = mulhi(counter.z, 0xCD9E8D57u), low1 = counter.z * 0xCD9E8D57u;
    counter = uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key += uint2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}
