/* SPDX-License-Identifier: GPL-2.0-only */
/* User-space stand-in: just what the scheduling core needs. */
#ifndef SHIM_TYPES_H
#define SHIM_TYPES_H

#include <stdbool.h>
#include <stddef.h>

/* As in the kernel a u64 is "long long" everywhere; min() checks types. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define container_of(ptr, type, member) \
	((type *)((char *)(1 ? (ptr) : &((type *)0)->member) - \
		  offsetof(type, member)))

#endif /* SHIM_TYPES_H */
