// Everything a kernel sees.
#pragma once
// The debugger's lines are the user's: what is inlined from here belongs to the line that asked for it.
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
// Addresses are looked at where the user's own code uses them.
#pragma clang attribute push(__attribute__((no_sanitize("alignment"))), apply_to = any(function, objc_method))
#include "soft_types.h"

#include "soft_abi.h"

#include "soft_traits.h"
#include "soft_constructs.h"
#include "soft_bfloat.h"
#include "soft_limits.h"
#include "soft_vector.h"
#include "soft_packed.h"
#include "soft_matrix.h"
#include "soft_array.h"
#include "soft_math.h"
#include "soft_integer.h"
#include "soft_relational.h"
#include "soft_geometric.h"
#include "soft_pack.h"
#include "soft_fast_precise.h"
#include "soft_logging.h"
#include "soft_atomic.h"
#include "soft_simd.h"
#include "soft_internal.h"
#if __has_include("soft_simdgroup_matrix.h")
#include "soft_simdgroup_matrix.h"
#endif
#include "soft_tensor_ops.h"
#include "soft_indirect.h"
#include "soft_entry.h"
#pragma clang attribute pop
#pragma clang attribute pop
