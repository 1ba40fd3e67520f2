// Textures and samplers: included by sources that name them, and by no others.
#pragma once
// As in soft.h.
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
#pragma clang attribute push(__attribute__((no_sanitize("alignment"))), apply_to = any(function, objc_method))
#if __has_feature(thread_sanitizer)
#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
#endif
#include "soft_texel.h"
#include "soft_sampler.h"
#include "soft_filter.h"
#include "soft_texture_types.h"
#include "soft_texture_entry.h"
#if __has_feature(thread_sanitizer)
#pragma clang attribute pop
#endif
#pragma clang attribute pop
#pragma clang attribute pop
