/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_MATH64_H
#define SHIM_MATH64_H

#include <linux/types.h>

/* Division by 0 is UBSan's to find. */
static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

/* By bits, as the kernel's. */
static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit;

	for (bit = 1UL << 31; bit; bit >>= 1)
		if ((root + bit) <= x / (root + bit))
			root += bit;
	return root;
}

static inline u64 div64_u64_rem(u64 a, u64 b, u64 *rest)
{
	*rest = a % b;
	return a / b;
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

/* Traps where the x86 instruction does: a quotient of more than 64 bits. */
static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	unsigned __int128 q = (unsigned __int128)a * b / c;

	if (q >> 64)
		__builtin_trap();
	return (u64)q;
}

#endif /* SHIM_MATH64_H */
