/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_OVERFLOW_H
#define SHIM_OVERFLOW_H

#include <linux/types.h>

#define check_add_overflow(a, b, d)	__builtin_add_overflow(a, b, d)
#define check_sub_overflow(a, b, d)	__builtin_sub_overflow(a, b, d)
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)

#endif /* SHIM_OVERFLOW_H */
