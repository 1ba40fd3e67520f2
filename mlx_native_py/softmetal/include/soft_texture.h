// Textures and samplers: included by sources that name them, and by no others.
#pragma once
#include "soft_texel.h"
#include "soft_sampler.h"
#include "soft_filter.h"
#include "soft_texture_types.h"
#include "soft_texture_entry.h"
