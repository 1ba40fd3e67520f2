// Angles of RoPE as 64-bit fractions of a full turn: multiplied by any whole position they wrap as angles do, so that
// nothing is lost at large positions.
#include <metal_stdlib>
using namespace metal;

// The fraction of a turn that is 2^8 times `small` over a positive factor, by long division on the factor's bits.
inline ulong divided_turn(ulong small, float factor) {
  uint bits = as_type<uint>(factor);
  int shift = int(bits >> 23 & 0xFF) - 134;  // factor / 2^8 = mantissa / 2^24 * 2^shift
  if (shift > 63 || shift < -63) {
    return 0;
  }
  ulong mantissa = (bits & 0x7FFFFF) | 0x800000;
  ulong quotient = (small / mantissa << 24) + (small % mantissa << 24) / mantissa;
  return shift >= 0 ? quotient >> shift : quotient << -shift;
}

// The sine of `position` times a fraction of a turn, and the cosine.
inline float sine_of_turns(ulong turn, int position, thread float &cosine) {
  int wrapped = int(uint((ulong(long(position)) * turn) >> 32));
  return precise::sincos(float(wrapped) * 1.4629180792671596e-9f, cosine);  // 2 pi / 2^32
}
