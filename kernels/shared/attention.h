// What the attention kernels share: their parameters, rows of keys and values in each format, and the score of a key.

constant uint DIM [[function_constant(0)]];    // of a query and a key
constant uint V_DIM [[function_constant(1)]];  // of a value

enum { NO_NUMBERS, BOOLEANS, FLOATS, HALVES, BFLOATS };

struct Attention {
  ulong q_stride[3];     // batch, head, token; in elements
  ulong out_stride[3];
  ulong kv_stride[3];    // batch, head, token; in rows
  ulong mask_stride[4];  // batch, head, query, key; 0 where the mask is broadcast
  uint heads;
  uint group;  // query heads per key head
  uint queries;
  uint capacity;  // rows of keys per head
  uint length_stride;
  uint ring;
  uint causal;
  uint window;  // 0: none
  uint mask_kind;
  uint sink_kind;
  float scale;
  float softcap;  // 0: none
  uint quantised_group;
  uint v_dim;
  uint together;  // rows of few queries that a threadgroup takes: 1, 2 or 4, with the keys of one head
};

// A query, and its place among the keys.
struct Query {
  uint batch;
  uint head;
  uint index;
  uint length;   // positions of its sequence so far
  int position;  // its own: the last query stands at the last key
};

struct Range {
  uint begin;
  uint end;
};

inline uint sequence_length(constant Attention &a, constant uint *lengths, uint batch) {
  const uint length = lengths[batch * a.length_stride];
  return a.ring ? length : min(length, a.capacity);
}

inline Query query_at(constant Attention &a, uint batch, uint head, uint index, uint length) {
  return {batch, head, index, length, int(length) - int(a.queries) + int(index)};
}

// The slots that queries from position `first` to `last` can see; all of them where a row sees none, or a ring has
// begun to overwrite itself.
inline Range visible(constant Attention &a, uint length, int first, int last) {
  Range range = {0, min(length, a.capacity)};
  if (length > a.capacity || first < 0) return range;
  if (a.causal) range.end = min(range.end, uint(last) + 1);
  if (a.window) range.begin = uint(max(0, first - int(a.window) + 1));
  return range;
}

// The position that a slot of a cache holds; a ring has the last `capacity` of them.
inline int position_of(constant Attention &a, uint slot, uint length) {
  return length <= a.capacity ? int(slot) : int(length - 1 - (length - 1 - slot) % a.capacity);
}

inline float number(device const uchar *numbers, uint kind, ulong i) {
  switch (kind) {
    case FLOATS: return ((device const float *)numbers)[i];
    case HALVES: return float(((device const half *)numbers)[i]);
    default: return float(((device const bfloat *)numbers)[i]);
  }
}

// The logit of a key. A boolean mask leaves the lowest finite number, so that a row of nothing else is the mean of its
// values; causality and window leave minus infinity, unless the row stands before all keys.
inline float score(constant Attention &a, device const uchar *mask, float dot, uint slot, Query q) {
  float s = dot * a.scale;
  if (a.softcap > 0.0f) s = a.softcap * precise::tanh(s / a.softcap);
  if (a.mask_kind != NO_NUMBERS) {
    const ulong i = q.batch * a.mask_stride[0] + q.head * a.mask_stride[1] + q.index * a.mask_stride[2] +
                    slot * a.mask_stride[3];
    if (a.mask_kind == BOOLEANS)
      s = mask[i] ? s : -FLT_MAX;
    else
      s += number(mask, a.mask_kind, i);
  }
  if (a.causal || a.window) {
    const int key = position_of(a, slot, q.length);
    if ((a.causal && key > q.position) || (a.window && q.position - key >= int(a.window)))
      s = q.position < 0 ? -FLT_MAX : -INFINITY;
  }
  return s;
}

// Whether a lane has a column in block i of 32; known beforehand for whole blocks.
inline bool inside(uint i, uint lane, uint columns) { return i * 32 + 32 <= columns || i * 32 + lane < columns; }

// Rows of one head in their own type. A lane of a simdgroup asks for column `first + lane`.
template <typename T>
struct DenseRows {
  typedef T Element;
  device const T *values;
  ulong pitch;  // elements from one token to the next

  DenseRows(device const T *all, ulong row, ulong tokens, uint dim) : values(all + row * dim), pitch(tokens * dim) {}
  float at(uint token, uint first, uint lane) const thread { return float(values[token * pitch + first + lane]); }
};

// Rows as scale * q + bias, with a scale and a bias per group of 32 or 64 columns.
template <typename T, uint bits>
struct AffineRows {
  typedef T Element;
  device const uchar *values;
  device const T *scales;
  device const T *biases;
  ulong row;
  ulong tokens;
  uint dim;
  uint group;

  AffineRows(device const uint *words, device const T *s, device const T *b, ulong first, ulong step, uint columns,
             uint size)
      : values((device const uchar *)words), scales(s), biases(b), row(first), tokens(step), dim(columns),
        group(size) {}
  float at(uint token, uint first, uint lane) const thread {
    const ulong r = row + token * tokens, column = r * dim + first, g = r * (dim / group) + first / group;
    const uint q = bits == 8 ? values[column + lane] : values[column / 2 + lane / 2] >> (lane % 2 * 4) & 15;
    return float(scales[g]) * float(q) + float(biases[g]);
  }
};
