// The bench's kernels for OpenCL; PoCL has no sub-groups, so sums go through local memory.

kernel void add(global const float *a, global const float *b, global float *out) {
  size_t i = get_global_id(0);
  out[i] = a[i] + b[i];
}

// The groups have 256 threads.
float sum_of_group(local float *partial, float mine) {
  uint t = get_local_id(0);
  partial[t] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint n = 128; n; n /= 2) {
    if (t < n) partial[t] += partial[t + n];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float sum = partial[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

float max_of_group(local float *partial, float mine) {
  uint t = get_local_id(0);
  partial[t] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint n = 128; n; n /= 2) {
    if (t < n) partial[t] = fmax(partial[t], partial[t + n]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float top = partial[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return top;
}

kernel void rms_norm(global const float *x, global const float *w, global float *out, uint width) {
  local float partial[256];
  global const float *in = x + get_group_id(0) * (ulong)width;
  global float *to = out + get_group_id(0) * (ulong)width;
  uint t = get_local_id(0);
  float sum = 0.0f;
  for (uint i = t; i < width; i += 256) sum += in[i] * in[i];
  float scale = rsqrt(sum_of_group(partial, sum) / width + 1e-5f);
  for (uint i = t; i < width; i += 256) to[i] = in[i] * scale * w[i];
}

kernel void softmax(global const float *x, global float *out, uint width) {
  local float partial[256];
  global const float *in = x + get_group_id(0) * (ulong)width;
  global float *to = out + get_group_id(0) * (ulong)width;
  uint t = get_local_id(0);
  float top = -INFINITY, sum = 0.0f;
  for (uint i = t; i < width; i += 256) top = fmax(top, in[i]);
  top = max_of_group(partial, top);
  for (uint i = t; i < width; i += 256) {
    float e = exp(in[i] - top);
    to[i] = e;
    sum += e;
  }
  float scale = 1.0f / sum_of_group(partial, sum);
  for (uint i = t; i < width; i += 256) to[i] *= scale;
}

kernel void tiled_matmul(global const float *A, global const float *B, global float *C, uint n) {
  local float a[32][32], b[32][32];
  uint x = get_global_id(0), y = get_global_id(1), tx = get_local_id(0), ty = get_local_id(1);
  float sum = 0.0f;
  for (uint k = 0; k < n; k += 32) {
    a[ty][tx] = A[y * n + k + tx];
    b[ty][tx] = B[(k + ty) * n + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < 32; ++i) sum = fma(a[ty][i], b[i][tx], sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  C[y * n + x] = sum;
}

// Four rows for each group of 128 threads.
kernel void q4_matvec(global const uint *W, global const float *scales, global const float *biases,
                      global const float *x, global float *y, uint width) {
  local float partial[128];
  uint t = get_local_id(0), lane = t % 32, row = get_group_id(0) * 4 + t / 32;
  global const uint *words = W + row * (ulong)(width / 8);
  global const float *scale = scales + row * (ulong)(width / 64);
  global const float *bias = biases + row * (ulong)(width / 64);
  float4 sum = 0.0f;
  for (uint i = lane; i < width / 8; i += 32) {
    float4 low = convert_float4((uint4)(words[i]) >> (uint4)(0, 4, 8, 12) & 15u);
    float4 high = convert_float4((uint4)(words[i]) >> (uint4)(16, 20, 24, 28) & 15u);
    float4 first = vload4(2 * i, x), second = vload4(2 * i + 1, x);
    sum += scale[i / 8] * (low * first + high * second) + bias[i / 8] * (first + second);
  }
  partial[t] = sum.x + sum.y + sum.z + sum.w;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint n = 16; n; n /= 2) {
    if (lane < n) partial[t] += partial[t + n];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) y[row] = partial[t];
}
