/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_BITS_H
#define SHIM_BITS_H

#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))

#endif /* SHIM_BITS_H */
