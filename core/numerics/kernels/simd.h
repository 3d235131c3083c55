// Marks a hot loop to be compiled for AVX-512, AVX2 and baseline x86-64, chosen once at program start.
// Everything it calls must be inlined (always_inline or a lambda) to profit.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(MOESCOPE_NO_TARGET_CLONES)
#define MOESCOPE_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MOESCOPE_SIMD
#endif

// For AVX-512 alone, where Target::lines (streaming.h) says that it is there: such a loop may use its instructions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MOESCOPE_LINES
#define MOESCOPE_SIMD_LINES __attribute__((target("arch=x86-64-v4")))
#else
#define MOESCOPE_SIMD_LINES
#endif
