/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <linux/types.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#endif /* SHIM_KERNEL_H */
