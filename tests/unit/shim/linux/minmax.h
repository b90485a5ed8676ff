/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_MINMAX_H
#define SHIM_MINMAX_H

#include <linux/types.h>

/* Operands of different types don't build, as in the kernel. */
#define shim_pick(a, op, b) __extension__ ({		\
	__typeof__(a) _a = (a);				\
	__typeof__(b) _b = (b);				\
	(void)(&_a == &_b);				\
	_a op _b ? _a : _b; })

/* A second pair of names, so that min(a, max(b, c)) doesn't shadow. */
#define shim_pick_max(a, b) __extension__ ({		\
	__typeof__(a) _x = (a);				\
	__typeof__(b) _y = (b);				\
	(void)(&_x == &_y);				\
	_x > _y ? _x : _y; })

#define min(a, b)		shim_pick(a, <, b)
#define max(a, b)		shim_pick_max(a, b)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp(v, lo, hi)	min(max(v, lo), hi)

#define swap(a, b) do {							\
	__typeof__(a) _tmp = (a);					\
	(a) = (b);							\
	(b) = _tmp;							\
} while (0)

#endif /* SHIM_MINMAX_H */
